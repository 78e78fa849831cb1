#include "context.h"

#include <algorithm>
#include <chrono>

#include "errors.h"
#include "pair.h"
#include "store.h"
#include "unbound_buffer.h"

namespace floe::gloo_transport {
namespace {

// Gloo bounds each wait, not the operation: a receive may be posted hours before anybody waits for it,
// and a wait may have a longer timeout than the context. So floe's own deadline stays out of the way.
constexpr uint64_t kOperationTimeoutMs =
    std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::hours(24 * 365)).count();

}  // namespace

Context::Context(std::shared_ptr<const Device> device, int rank, int size)
    : gloo_abi::r4::Context(rank, size), device_(std::move(device)) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw ::gloo::InvalidOperationException("floe: rank " + std::to_string(rank) + " of " +
                                            std::to_string(size) + " ranks does not exist");
  }
  for (int peer = 0; peer < size; ++peer) pairs_.push_back(std::make_unique<Pair>(*this, peer));
}

std::unique_ptr<gloo_abi::r4::Pair>& Context::getPair(int peer) { return pairs_.at(peer); }

std::unique_ptr<gloo_abi::r4::Pair>& Context::createPair(int peer) { return pairs_.at(peer); }

void Context::createAndConnectAllPairs(std::shared_ptr<gloo_abi::r4::IStore> host_store) {
  const std::string who = "floe: connecting rank " + std::to_string(rank) + " of " + std::to_string(size);
  if (comm_) throw ::gloo::InvalidOperationException(who + ": is connected already");
  if (!host_store) throw ::gloo::InvalidOperationException(who + ": there is no store");

  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.rank = static_cast<uint32_t>(rank);
  config.size = static_cast<uint32_t>(size);
  config.name = "gloo";
  config.timeout_ms = static_cast<uint64_t>(std::max<int64_t>(1, timeout_.count()));

  Store store(*host_store);
  const floe_store_t callbacks = store.callbacks();
  floe_comm_t* comm = nullptr;
  if (floe_comm_create(device_->floe(), &config, &callbacks, &comm) != FLOE_OK) {
    const std::string cause = store.error().empty() ? "" : "; the store said: " + store.error();
    throw ::gloo::IoException(who + ": " + floe_last_error() + cause);
  }
  comm_.reset(comm);
  if (floe_comm_set_timeout(comm, kOperationTimeoutMs) != FLOE_OK) {
    throw ::gloo::IoException(who + ": " + floe_last_error());
  }
}

std::unique_ptr<gloo_abi::r4::UnboundBuffer> Context::createUnboundBuffer(void* ptr, size_t bytes) {
  return std::make_unique<UnboundBuffer>(shared_from_this(), ptr, bytes);
}

std::unique_ptr<gloo_abi::r4::RemoteKey> Context::deserializeRemoteKey(const std::string&) {
  throw_unsupported("deserializeRemoteKey", "use send and recv");
}

floe_comm_t* Context::comm() const {
  if (!comm_) {
    throw ::gloo::InvalidOperationException("floe: rank " + std::to_string(rank) + " of " +
                                            std::to_string(size) + " is not connected yet");
  }
  return comm_.get();
}

void Context::check_peer(int peer) const {
  if (peer >= 0 && peer < size && peer != rank) return;
  const std::string why = peer == rank ? "a rank exchanges no messages with itself" : "there is no such rank";
  throw ::gloo::InvalidOperationException("floe: rank " + std::to_string(rank) + " of " +
                                          std::to_string(size) + ": peer " + std::to_string(peer) + ": " +
                                          why);
}

void Context::abort() const {
  if (comm_) (void)floe_comm_abort(comm_.get());
}

}  // namespace floe::gloo_transport
