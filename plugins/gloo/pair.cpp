#include "pair.h"

#include "context.h"
#include "errors.h"

namespace floe::gloo_transport {

using gloo_abi::r4::RemoteKey;

std::vector<char> PairAddress::bytes() const {
  const std::string text = str();
  return {text.begin(), text.end()};
}

void Pair::connect(const std::vector<char>&) {
  throw_unsupported("connecting a single pair", "call createAndConnectAllPairs");
}

// As with tcp, whoever waits for this rank gets an error.
void Pair::close() { context_.abort(); }

std::unique_ptr<gloo_abi::r4::Buffer> Pair::createSendBuffer(int, void*, size_t) {
  throw_unsupported("a buffer bound to a pair", "use Context::createUnboundBuffer");
}

std::unique_ptr<gloo_abi::r4::Buffer> Pair::createRecvBuffer(int, void*, size_t) {
  throw_unsupported("a buffer bound to a pair", "use Context::createUnboundBuffer");
}

bool Pair::isConnected() { return peer_ != context_.rank && context_.connected(); }

void Pair::send(gloo_abi::r4::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) {
  buffer->send(peer_, slot, offset, nbytes);
}

void Pair::recv(gloo_abi::r4::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) {
  buffer->recv(peer_, slot, offset, nbytes);
}

void Pair::put(gloo_abi::r4::UnboundBuffer*, const RemoteKey&, uint64_t, size_t, size_t, size_t) {
  throw_unsupported("put", "use send and recv");
}

void Pair::get(gloo_abi::r4::UnboundBuffer*, const RemoteKey&, uint64_t, size_t, size_t, size_t) {
  throw_unsupported("get", "use send and recv");
}

}  // namespace floe::gloo_transport
