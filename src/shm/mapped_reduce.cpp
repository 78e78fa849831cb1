#include "shm/mapped_reduce.h"

#include <algorithm>

#include "base/log.h"
#include "base/types.h"
#include "reduce/reduce.h"
#include "shm/per_rank.h"

namespace floe {
namespace {

// From here on it pays. With two buffers, lines of one stay in the caches of the peers that have read it, and
// those of the other in this rank's, and to overwrite them means to get them back one by one; in place they
// travel with the data. Once they don't fit into the caches it makes no difference.
constexpr uint64_t kLeastBytes = 64 << 10, kLeastBytesOfTwo = 1 << 20;
constexpr uint64_t kLineBytes = 64;

}  // namespace

bool MappedReduce::fits(const LocalRanks& ranks, State& state, const DirectArgs& args) {
  const uint64_t bytes = args.count * type_size(args.type);
  const bool all_reduce = args.pattern.reduces && !args.pattern.block_each &&
                          args.pattern.publish == Pattern::Ranks::kAll &&
                          args.pattern.read == Pattern::Ranks::kAll;
  const uint64_t least = args.send == args.recv ? kLeastBytes : kLeastBytesOfTwo;
  if (state.arenas.empty() || !all_reduce || bytes < least) return false;
  const Arena& own = *state.arenas[ranks.self()];
  if (!own.contains(args.send, bytes) || !own.contains(args.recv, bytes)) return false;
  for (uint32_t rank = 0; rank < ranks.size() && !state.mapped; ++rank) {
    const Status mapped = state.arenas[rank]->map();
    if (mapped.ok()) continue;
    log(LogLevel::kInfo, "all_reduce copies, as local rank {}'s memory can't be used from here: {}", rank,
        mapped.message());
    state.arenas.clear();
    return false;
  }
  return state.mapped = true;
}

MappedReduce::MappedReduce(const LocalRanks& ranks, const State& state, PairSlots& slots,
                           const DirectArgs& args)
    : ranks_(&ranks),
      state_(&state),
      args_(args),
      usual_(ranks, slots, Movement(args, ranks.size(), ranks.self())),
      element_(type_size(args.type)),
      slice_(kSliceBytes / element_) {
  const uint64_t even = (args.count + ranks.size() - 1) / ranks.size(), unit = kLineBytes / element_;
  part_ = (even + unit - 1) / unit * unit;
}

void MappedReduce::offer() {
  const Arena& arena = *state_->arenas[ranks_->self()];
  SegmentHeader& header = ranks_->own().header();
  const auto offset = [&](const void* p) {
    return static_cast<uint64_t>(static_cast<const std::byte*>(p) - arena.base());
  };
  // As if it had been put all along: no flag falls so far behind that it seems to be ahead.
  header.put.store(Flag::word(usual_.first(), args_.hash), std::memory_order_relaxed);
  header.offered_send.store(offset(args_.send), std::memory_order_relaxed);
  header.offered_recv.store(offset(args_.recv), std::memory_order_relaxed);
  header.offered_bytes.store(args_.count * element_, std::memory_order_relaxed);
  // Release: pairs with the acquire in agree(). The offsets of the last offer are used by nobody: peers read
  // them before they are done, and this rank saw that. What the caller wrote to its buffers is visible, too.
  header.offer.store(Flag::word(usual_.first() + 1, args_.hash), std::memory_order_release);
}

// A peer that has offered this one does not come to the next before this rank is through; older offers count
// less, however old they are.
bool MappedReduce::is_offer(uint64_t word) const {
  return Flag::counter(word) == Flag::counter(Flag::word(usual_.first() + 1, 0));
}

Poll MappedReduce::agree() {
  for (; next_ < ranks_->size(); ++next_) {
    if (next_ == ranks_->self()) continue;
    // Acquire: pairs with the release in offer().
    const uint64_t word = (*ranks_)[next_].header().offer.load(std::memory_order_acquire);
    if (is_offer(word)) {
      // A hash has 24 bits, and here the caller's memory is at stake.
      const uint64_t bytes = (*ranks_)[next_].header().offered_bytes.load(std::memory_order_relaxed);
      if (Flag::hash(word) != Flag::hash(Flag::word(0, args_.hash)) || bytes != args_.count * element_)
        return Poll::kMismatch;
      continue;
    }
    // A peer that has put without an offer declines. So does one whose offer came after the look above: it
    // has fallen back because another one declines.
    if (!usual_.has_put(next_)) return Poll::kPending;
    stage_ = Stage::kUsual;
    return Poll::kMoved;
  }
  next_ = 0;
  stage_ = Stage::kReduce;
  return Poll::kMoved;
}

MappedReduce::Part MappedReduce::part(uint32_t owner) const {
  const uint64_t begin = std::min(args_.count, owner * part_);
  return {begin, std::min(part_, args_.count - begin)};
}

std::byte* MappedReduce::buffer(uint32_t rank, const std::atomic<uint64_t> SegmentHeader::*offset) const {
  const Arena& arena = *state_->arenas[rank];
  const uint64_t begin = ((*ranks_)[rank].header().*offset).load(std::memory_order_relaxed);
  const uint64_t bytes = args_.count * element_;
  if (begin > arena.bytes() || bytes > arena.bytes() - begin) return nullptr;
  return arena.base() + begin;
}

// Dekker with Group::end_peers_writes(): this rank says that it touches and then looks whether a rank
// has ended; that one says that it ends and then looks who touches. The fences between are sequentially
// consistent, so at least one of the two sees the other.
bool MappedReduce::begin_touching() {
  std::atomic<uint32_t>& touching = ranks_->own().header().touching;
  touching.store(static_cast<uint32_t>(1 + reduced_ / slice_), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t peer = 0; peer < ranks_->size(); ++peer) {
    const uint32_t state = (*ranks_)[peer].header().state.load(std::memory_order_relaxed);
    if (state == static_cast<uint32_t>(RankState::kAlive)) continue;
    touching.store(0, std::memory_order_relaxed);
    return false;
  }
  return true;
}

Poll MappedReduce::reduce_slice() {
  const uint32_t n = ranks_->size(), self = ranks_->self();
  const auto [begin, mine] = part(self);
  const uint64_t count = std::min(slice_, mine - reduced_), at = (begin + reduced_) * element_;
  PerRank<const void*> sources(n);
  PerRank<void*> destinations(n);
  for (next_ = 0; next_ < n; ++next_) {
    const std::byte* const send = buffer(next_, &SegmentHeader::offered_send);
    std::byte* const recv = buffer(next_, &SegmentHeader::offered_recv);
    if (!send || !recv) return Poll::kInvalid;
    sources[next_] = send + at;
    destinations[next_] = recv + at;
  }
  next_ = 0;
  std::swap(destinations[0], destinations[self]);  // where there are many, the others are copies of the first
  if (!begin_touching()) return Poll::kPending;
  reduce(destinations.first(n), sources.first(n), count, args_.type, args_.op, n);
  // Release: pairs with the acquire in Group::end_peers_writes(); nothing is written after it.
  ranks_->own().header().touching.store(0, std::memory_order_release);
  reduced_ += count;
  if (reduced_ < mine) return Poll::kMoved;
  stage_ = Stage::kEnd;
  // Release: pairs with the acquire in all_done(); this rank's part of the result is everywhere. The flag is
  // ReturnLine's, which nobody uses in this operation.
  ranks_->own().header().done.store(Flag::word(usual_.end(), args_.hash), std::memory_order_release);
  return Poll::kMoved;
}

Status MappedReduce::fence(uint32_t peer) const {
  const uint64_t touching = (*ranks_)[peer].header().touching.load(std::memory_order_relaxed);
  if (touching == 0 || stage_ == Stage::kUsual) return {};
  const auto [begin, count] = part(peer);
  const uint64_t from = std::min(count, (touching - 1) * slice_), slice = std::min(slice_, count - from);
  if (slice == 0) return {};
  return state_->arenas[ranks_->self()]->fence(
      static_cast<const std::byte*>(args_.recv) + (begin + from) * element_, slice * element_);
}

bool MappedReduce::all_done() {
  for (; next_ < ranks_->size(); ++next_) {
    if (next_ == ranks_->self()) continue;
    // Acquire: pairs with the release in reduce_slice().
    const uint64_t word = (*ranks_)[next_].header().done.load(std::memory_order_acquire);
    if (!Flag::reached(word, usual_.end())) return false;
  }
  return true;
}

Poll MappedReduce::poll() {
  bool moved = false;
  if (stage_ == Stage::kOffer) {
    offer();
    stage_ = Stage::kAgree;
    moved = true;
  }
  if (stage_ == Stage::kAgree) {
    const Poll agreed = agree();
    if (agreed != Poll::kMoved) return agreed == Poll::kPending && moved ? Poll::kMoved : agreed;
  }
  if (stage_ == Stage::kUsual) return usual_.poll();
  if (stage_ == Stage::kReduce) {
    const Poll slice = reduce_slice();
    if (slice != Poll::kMoved) return slice == Poll::kPending && moved ? Poll::kMoved : slice;
    moved = true;
  }
  if (stage_ == Stage::kEnd && all_done()) {
    // The end of another communicator may have fenced pages that this result lies in, too.
    if (state_->arenas[ranks_->self()]->contains(args_.recv, args_.count * element_)) return Poll::kDone;
    next_ = ranks_->self();
    return Poll::kInvalid;
  }
  return moved ? Poll::kMoved : Poll::kPending;
}

bool MappedReduce::waits_for(uint32_t peer) const {
  if (stage_ == Stage::kUsual) return usual_.waits_for(peer);
  if (peer == ranks_->self()) return false;
  const SegmentHeader& header = (*ranks_)[peer].header();
  switch (stage_) {
    case Stage::kAgree:
      return !is_offer(header.offer.load(std::memory_order_relaxed)) && !usual_.has_put(peer);
    case Stage::kReduce:  // held up by one that has ended: see begin_touching()
      return header.state.load(std::memory_order_relaxed) != static_cast<uint32_t>(RankState::kAlive);
    case Stage::kEnd: return !Flag::reached(header.done.load(std::memory_order_relaxed), usual_.end());
    default: return false;
  }
}

}  // namespace floe
