#include "unbound_buffer.h"

#include <algorithm>

#include "context.h"
#include "errors.h"

namespace floe::gloo_transport {
namespace {

using gloo_abi::r4::kRestOfBuffer;
using gloo_abi::r4::kUnsetTimeout;
using gloo_abi::r4::Millis;
using gloo_abi::r4::RemoteKey;

// PyTorch lists every rank of the group as the source of a receive from any, itself included and rank 0
// several times.
std::vector<uint32_t> other_ranks(const Context& context, std::vector<int> ranks) {
  std::erase(ranks, context.rank);
  for (const int rank : ranks) context.check_peer(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return {ranks.begin(), ranks.end()};
}

}  // namespace

UnboundBuffer::UnboundBuffer(std::shared_ptr<Context> context, void* ptr, size_t size)
    : gloo_abi::r4::UnboundBuffer(ptr, size), context_(std::move(context)) {}

UnboundBuffer::~UnboundBuffer() {
  if (!sends_.settled() || !receives_.settled()) context_->abort();
}

void UnboundBuffer::send(int dst, uint64_t slot, size_t offset, size_t nbytes) {
  const Part data = part(offset, nbytes);
  context_->check_peer(dst);
  floe_request_t* request = nullptr;
  if (floe_send(context_->comm(), data.data, data.bytes, FLOE_UINT8, static_cast<uint32_t>(dst), slot,
                &request) != FLOE_OK) {
    throw ::gloo::IoException(title(Direction::kSend, dst) + ": " + floe_last_error());
  }
  sends_.add(request, dst);
}

void UnboundBuffer::recv(int src, uint64_t slot, size_t offset, size_t nbytes) {
  const Part data = part(offset, nbytes);
  context_->check_peer(src);
  floe_request_t* request = nullptr;
  if (floe_recv(context_->comm(), data.data, data.bytes, FLOE_UINT8, static_cast<uint32_t>(src), slot,
                &request) != FLOE_OK) {
    throw ::gloo::IoException(title(Direction::kRecv, src) + ": " + floe_last_error());
  }
  receives_.add(request, src);
}

void UnboundBuffer::recv(std::vector<int> srcs, uint64_t slot, size_t offset, size_t nbytes) {
  const Part data = part(offset, nbytes);
  const std::vector<uint32_t> sources = other_ranks(*context_, std::move(srcs));
  if (sources.empty()) {
    throw ::gloo::InvalidOperationException(title(Direction::kRecv, PendingOperations::kAnyPeer) +
                                            ": no other rank is listed as its source");
  }
  floe_request_t* request = nullptr;
  if (floe_recv_any(context_->comm(), data.data, data.bytes, FLOE_UINT8, sources.data(), sources.size(), slot,
                    &request) != FLOE_OK) {
    throw ::gloo::IoException(title(Direction::kRecv, PendingOperations::kAnyPeer) + ": " +
                              floe_last_error());
  }
  receives_.add(request, PendingOperations::kAnyPeer);
}

bool UnboundBuffer::waitRecv(int* rank, Millis timeout) { return wait(Direction::kRecv, rank, timeout); }

bool UnboundBuffer::waitSend(int* rank, Millis timeout) { return wait(Direction::kSend, rank, timeout); }

bool UnboundBuffer::wait(Direction direction, int* rank, Millis timeout) {
  if (timeout == kUnsetTimeout) timeout = context_->timeout_;
  const PendingOperations::Result result = (direction == Direction::kSend ? sends_ : receives_).wait(timeout);
  switch (result.outcome) {
    case PendingOperations::Outcome::kAborted: return false;
    case PendingOperations::Outcome::kFailed:
      throw ::gloo::IoException(title(direction, result.peer) + ": " + result.message);
    case PendingOperations::Outcome::kTimedOut:
      // As with Gloo's tcp: what was posted would arrive in memory that the caller takes back now.
      context_->abort();
      throw ::gloo::IoException(title(direction, result.peer) + ": Timed out waiting " +
                                std::to_string(timeout.count()) + "ms for " +
                                (direction == Direction::kSend ? "send" : "recv") + " operation to complete");
    case PendingOperations::Outcome::kCompleted: break;
  }
  if (rank) *rank = result.peer;
  return true;
}

UnboundBuffer::Part UnboundBuffer::part(size_t offset, size_t nbytes) const {
  const bool rest = nbytes == kRestOfBuffer;
  if (nbytes == 0) return {static_cast<char*>(ptr), 0};
  if (offset > size || (!rest && nbytes > size - offset)) {
    throw ::gloo::InvalidOperationException("floe: " + (rest ? "all" : std::to_string(nbytes)) +
                                            " bytes at offset " + std::to_string(offset) +
                                            " are not inside a buffer of " + std::to_string(size));
  }
  return {static_cast<char*>(ptr) + offset, rest ? size - offset : nbytes};
}

std::string UnboundBuffer::title(Direction direction, int peer) const {
  const std::string whom = peer == PendingOperations::kAnyPeer ? "any rank" : "rank " + std::to_string(peer);
  return "floe: rank " + std::to_string(context_->rank) +
         (direction == Direction::kSend ? ": send to " : ": recv from ") + whom;
}

std::unique_ptr<RemoteKey> UnboundBuffer::getRemoteKey() const {
  throw_unsupported("getRemoteKey", "use send and recv");
}

void UnboundBuffer::put(const RemoteKey&, uint64_t, size_t, size_t, size_t) {
  throw_unsupported("put", "use send and recv");
}

void UnboundBuffer::get(const RemoteKey&, uint64_t, size_t, size_t, size_t) {
  throw_unsupported("get", "use send and recv");
}

}  // namespace floe::gloo_transport
