#include "unbound_buffer.h"

#include <algorithm>

#include "context.h"
#include "courier.h"
#include "errors.h"
#include "rendezvous.h"
#if FLOE_GLOO_REVISION >= 4
#include "remote_key.h"
#endif

namespace floe::gloo_transport::FLOE_GLOO_ABI {
namespace {

using abi::kRestOfBuffer;
using abi::kUnsetTimeout;
using abi::Millis;

// PyTorch lists every rank of the group as the source of a receive from any, itself included and rank 0
// several times.
std::vector<uint32_t> other_ranks(Context& context, std::vector<int> ranks) {
  std::erase(ranks, context.rank);
  for (const int rank : ranks) context.group().check_peer(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return {ranks.begin(), ranks.end()};
}

}  // namespace

UnboundBuffer::UnboundBuffer(std::shared_ptr<Context> context, void* ptr, size_t size)
    : abi::UnboundBuffer(ptr, size), context_(std::move(context)) {}

UnboundBuffer::~UnboundBuffer() {
#if FLOE_GLOO_REVISION >= 4
  if (key_ != 0 && !context_->group().courier().hide(key_)) context_->group().abort();
#endif
  if (!sends_.settled() || !receives_.settled()) context_->group().abort();
}

void UnboundBuffer::send(int dst, uint64_t slot, size_t offset, size_t nbytes) {
  const Part data = part(offset, nbytes);
  check_slot(slot);
  context_->group().check_peer(dst);
  floe_request_t* request = nullptr;
  if (floe_send(context_->group().comm(), data.data, data.bytes, FLOE_UINT8, static_cast<uint32_t>(dst), slot,
                &request) != FLOE_OK) {
    throw ::gloo::IoException(title(Direction::kSend, dst) + ": " + floe_last_error());
  }
  floe_request_t* posted = nullptr;
  if (is_rendezvous(slot) && floe_recv(context_->group().comm(), nullptr, 0, FLOE_UINT8,
                                       static_cast<uint32_t>(dst), posted_tag(slot), &posted) != FLOE_OK) {
    const std::string why = floe_last_error();
    sends_.add(request, dst);
    throw ::gloo::IoException(title(Direction::kSend, dst) + ": " + why);
  }
  sends_.add(request, dst, posted);
}

void UnboundBuffer::recv(int src, uint64_t slot, size_t offset, size_t nbytes) {
  const Part data = part(offset, nbytes);
  check_slot(slot);
  context_->group().check_peer(src);
  floe_request_t* request = nullptr;
  if (floe_recv(context_->group().comm(), data.data, data.bytes, FLOE_UINT8, static_cast<uint32_t>(src), slot,
                &request) != FLOE_OK) {
    throw ::gloo::IoException(title(Direction::kRecv, src) + ": " + floe_last_error());
  }
  receives_.add(request, src);
  if (!is_rendezvous(slot)) return;
  floe_request_t* posted = nullptr;
  if (floe_send(context_->group().comm(), nullptr, 0, FLOE_UINT8, static_cast<uint32_t>(src),
                posted_tag(slot), &posted) != FLOE_OK) {
    throw ::gloo::IoException(title(Direction::kRecv, src) + ": " + floe_last_error());
  }
  (void)floe_request_free(posted);  // it goes on
}

void UnboundBuffer::recv(std::vector<int> srcs, uint64_t slot, size_t offset, size_t nbytes) {
  const Part data = part(offset, nbytes);
  check_slot(slot);
  const std::vector<uint32_t> sources = other_ranks(*context_, std::move(srcs));
  if (sources.empty()) {
    throw ::gloo::InvalidOperationException(title(Direction::kRecv, PendingOperations::kAnyPeer) +
                                            ": no other rank is listed as its source");
  }
  floe_request_t* request = nullptr;
  if (floe_recv_any(context_->group().comm(), data.data, data.bytes, FLOE_UINT8, sources.data(),
                    sources.size(), slot, &request) != FLOE_OK) {
    throw ::gloo::IoException(title(Direction::kRecv, PendingOperations::kAnyPeer) + ": " +
                              floe_last_error());
  }
  const auto received = receives_.add(request, PendingOperations::kAnyPeer);
  if (is_rendezvous(slot)) context_->group().courier().tell_source(received, posted_tag(slot));
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
      context_->group().abort();
      throw ::gloo::IoException(title(direction, result.peer) + ": Timed out waiting " +
                                std::to_string(timeout.count()) + "ms for " +
                                (direction == Direction::kSend ? "send" : "recv") + " operation to complete" +
                                (result.message.empty() ? "" : ": " + result.message));
    case PendingOperations::Outcome::kCompleted: break;
  }
  if (rank) *rank = result.peer;
  return true;
}

UnboundBuffer::Part UnboundBuffer::part(size_t offset, size_t nbytes) const {
  const bool rest = nbytes == kRestOfBuffer;
  if (nbytes == 0) return {static_cast<char*>(ptr), 0};
  if (offset > size || (!rest && nbytes > size - offset)) throw_outside(offset, nbytes, size);
  return {static_cast<char*>(ptr) + offset, rest ? size - offset : nbytes};
}

void UnboundBuffer::check_slot(uint64_t slot) const {
  if (!is_courier_tag(slot) && !is_posted_tag(slot)) return;
  throw ::gloo::InvalidOperationException(
      "floe: slot " + std::to_string(slot) +
      " is one of those that floe needs itself: 0xf10e or 0xf2 in the highest bits");
}

std::string UnboundBuffer::title(Direction direction, int peer) const {
  const std::string whom = peer == PendingOperations::kAnyPeer ? "any rank" : "rank " + std::to_string(peer);
  return "floe: rank " + std::to_string(context_->rank) +
         (direction == Direction::kSend ? ": send to " : ": recv from ") + whom;
}

#if FLOE_GLOO_REVISION >= 4
std::unique_ptr<abi::RemoteKey> UnboundBuffer::getRemoteKey() const {
  std::call_once(exposed_, [&] {
    key_ =
        context_->group().courier().expose(std::make_shared<Target>(Target{static_cast<char*>(ptr), size}));
  });
  return std::make_unique<RemoteKey>(context_->rank, size, key_);
}

UnboundBuffer::Part UnboundBuffer::part(const abi::RemoteKey& key, size_t offset, size_t roffset,
                                        size_t nbytes) const {
  context_->group().check_peer(key.rank);
  const Part local = part(offset, nbytes);
  if (offset > size) throw_outside(offset, nbytes, size);
  if (roffset > key.size || local.bytes > key.size - roffset) throw_outside(roffset, local.bytes, key.size);
  return local;
}

void UnboundBuffer::put(const abi::RemoteKey& key, uint64_t, size_t offset, size_t roffset, size_t nbytes) {
  const Part data = part(key, offset, roffset, nbytes);
  const uint64_t number = static_cast<const RemoteKey&>(key).key();
  sends_.add(context_->group().courier().put(key.rank, number, data.data, data.bytes, roffset), key.rank);
}

void UnboundBuffer::get(const abi::RemoteKey& key, uint64_t, size_t offset, size_t roffset, size_t nbytes) {
  const Part data = part(key, offset, roffset, nbytes);
  const uint64_t number = static_cast<const RemoteKey&>(key).key();
  sends_.add(context_->group().courier().get(key.rank, number, data.data, data.bytes, roffset), key.rank);
}
#endif

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
