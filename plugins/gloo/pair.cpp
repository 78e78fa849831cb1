#include "pair.h"

#include "bound_buffer.h"
#include "context.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

const abi::Address& Pair::address() const {
  if (!address_) address_ = std::make_unique<Address>(context_.group().address());
  return *address_;
}

void Pair::connect(const std::vector<char>& bytes) {
  context_.group().connect_pair(peer_, bytes, context_.timeout_);
}

// As with tcp, whoever waits for this rank gets an error.
void Pair::close() { context_.group().abort(); }

std::unique_ptr<abi::Buffer> Pair::createSendBuffer(int slot, void* ptr, size_t size) {
  return std::make_unique<BoundBuffer>(context_.shared_from_this(), peer_, slot, ptr, size,
                                       BoundBuffer::Role::kSender);
}

std::unique_ptr<abi::Buffer> Pair::createRecvBuffer(int slot, void* ptr, size_t size) {
  return std::make_unique<BoundBuffer>(context_.shared_from_this(), peer_, slot, ptr, size,
                                       BoundBuffer::Role::kReceiver);
}

#if FLOE_GLOO_REVISION >= 3
bool Pair::isConnected() { return peer_ != context_.rank && context_.group().connected(); }
#endif

void Pair::send(abi::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) {
  buffer->send(peer_, slot, offset, nbytes);
}

void Pair::recv(abi::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) {
  buffer->recv(peer_, slot, offset, nbytes);
}

#if FLOE_GLOO_REVISION >= 4
void Pair::put(abi::UnboundBuffer* buffer, const abi::RemoteKey& key, uint64_t slot, size_t offset,
               size_t roffset, size_t nbytes) {
  buffer->put(key, slot, offset, roffset, nbytes);
}

void Pair::get(abi::UnboundBuffer* buffer, const abi::RemoteKey& key, uint64_t slot, size_t offset,
               size_t roffset, size_t nbytes) {
  buffer->get(key, slot, offset, roffset, nbytes);
}
#endif

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
