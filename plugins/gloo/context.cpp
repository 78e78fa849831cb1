#include "context.h"

#include "errors.h"
#include "pair.h"
#include "unbound_buffer.h"
#if FLOE_GLOO_REVISION >= 2
#include "store.h"
#endif
#if FLOE_GLOO_REVISION >= 4
#include "remote_key.h"
#endif

namespace floe::gloo_transport::FLOE_GLOO_ABI {

Context::Context(std::shared_ptr<const Device> device, int rank, int size)
    : abi::Context(rank, size),
      device_(std::move(device)),
      group_(device_->floe(), rank, size, device_->host()) {
  for (int peer = 0; peer < size; ++peer) pairs_.push_back(std::make_unique<Pair>(*this, peer));
}

std::unique_ptr<abi::Pair>& Context::getPair(int peer) { return pairs_.at(static_cast<size_t>(peer)); }

std::unique_ptr<abi::Pair>& Context::createPair(int peer) { return getPair(peer); }

#if FLOE_GLOO_REVISION == 2
void Context::createAndConnectAllPairs(abi::IStore& host_store) {
  Store store(host_store);
  group_.connect(store.callbacks(), store.error(), timeout_);
}
#elif FLOE_GLOO_REVISION >= 3
void Context::createAndConnectAllPairs(std::shared_ptr<abi::IStore> host_store) {
  if (!host_store) throw ::gloo::InvalidOperationException("floe: connecting: there is no store");
  Store store(*host_store);
  group_.connect(store.callbacks(), store.error(), timeout_);
}
#endif

std::unique_ptr<abi::UnboundBuffer> Context::createUnboundBuffer(void* ptr, size_t bytes) {
  return std::make_unique<UnboundBuffer>(shared_from_this(), ptr, bytes);
}

#if FLOE_GLOO_REVISION >= 4
std::unique_ptr<abi::RemoteKey> Context::deserializeRemoteKey(const std::string& bytes) {
  auto key = RemoteKey::parse(bytes);
  if (key->rank >= size) {
    throw ::gloo::InvalidOperationException("floe: '" + bytes + "' is a key of another group");
  }
  return key;
}
#endif

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
