#include "shm/return_line.h"

#include <algorithm>
#include <cstring>

#include "base/types.h"
#include "reduce/reduce.h"
#include "shm/per_rank.h"

namespace floe {

ReturnLine::ReturnLine(const LocalRanks& ranks, State& state, const DirectArgs& args)
    : ranks_(&ranks), args_(args), element_(type_size(args.type)) {
  const uint64_t chunk_bytes = ranks.own().layout().block_bytes * ranks.size();
  chunks_ = (args.count * element_ + chunk_bytes - 1) / chunk_bytes;
  first_ = state.chunks;
  state.chunks += chunks_;
}

ReturnLine::Part ReturnLine::part(uint64_t chunk, uint32_t owner) const {
  // Chunks hold whole blocks of the full size but the last, which is split evenly at multiples of a line.
  const uint64_t full = ranks_->own().layout().block_bytes / element_;
  const uint64_t chunk_begin = chunk * full * ranks_->size();
  const uint64_t chunk_count = std::min(args_.count - chunk_begin, full * ranks_->size());
  const uint64_t line = 64 / element_;
  const uint64_t even = (chunk_count + ranks_->size() - 1) / ranks_->size();
  const uint64_t size = std::min(full, (even + line - 1) / line * line);
  const uint64_t begin = std::min(chunk_count, owner * size);
  return {chunk_begin + begin, std::min(size, chunk_count - begin)};
}

void ReturnLine::put() {
  const Segment& mine = ranks_->own();
  for (uint32_t owner = 0; owner < ranks_->size(); ++owner) {
    if (owner == ranks_->self()) continue;
    const Part b = part(put_, owner);
    std::memcpy(mine.block(first_ + put_, owner),
                static_cast<const std::byte*>(args_.send) + b.begin * element_, b.count * element_);
  }
  ++put_;
  // Release: pairs with the acquire in all_passed(). The slots are free: this rank has read back the chunk
  // that used them before (put_ stays below got_ + kChunkSlots), and its owners wrote nothing since.
  mine.header().put.store(Flag::word(first_ + put_, args_.hash), std::memory_order_release);
}

void ReturnLine::reduce_own() {
  const uint32_t n = ranks_->size(), self = ranks_->self();
  const Part b = part(reduced_, self);
  PerRank<const void*> sources(n);
  PerRank<void*> destinations(n);
  uint32_t readers = 0;
  for (uint32_t rank = 0; rank < n; ++rank) {
    std::byte* const slot = rank == self ? nullptr : (*ranks_)[rank].block(first_ + reduced_, self);
    sources[rank] = rank == self ? static_cast<const std::byte*>(args_.send) + b.begin * element_ : slot;
    if (wants(rank))
      destinations[readers++] =
          rank == self ? static_cast<std::byte*>(args_.recv) + b.begin * element_ : slot;
  }
  reduce(destinations.first(readers), sources.first(n), b.count, args_.type, args_.op, n);
  ++reduced_;
  // Release: pairs with the acquire in all_passed(); the results are in the slots of the ranks that want
  // them.
  ranks_->own().header().done.store(Flag::word(first_ + reduced_, args_.hash), std::memory_order_release);
}

void ReturnLine::get() {
  const Segment& mine = ranks_->own();
  for (uint32_t owner = 0; owner < ranks_->size() && wants(ranks_->self()); ++owner) {
    if (owner == ranks_->self()) continue;
    const Part b = part(got_, owner);
    std::memcpy(static_cast<std::byte*>(args_.recv) + b.begin * element_, mine.block(first_ + got_, owner),
                b.count * element_);
  }
  ++got_;
}

bool ReturnLine::all_passed(std::atomic<uint64_t> SegmentHeader::*flag, uint64_t chunk) {
  const uint64_t wanted = first_ + chunk + 1;
  for (uint32_t peer = 0; peer < ranks_->size(); ++peer) {
    if (peer == ranks_->self()) continue;
    // Acquire: pairs with the releases in put() and reduce_own().
    const uint64_t word = ((*ranks_)[peer].header().*flag).load(std::memory_order_acquire);
    if (!Flag::reached(word, wanted)) return false;
    // The flag is of this operation: a peer goes on to its next one only after this rank's last `done`,
    // and this rank looks at `put` only before that, and a peer's next `done` needs this rank's next put.
    if (Flag::hash(word) != Flag::hash(Flag::word(0, args_.hash))) {
      mismatch_ = true;
      mismatch_with_ = peer;
      return false;
    }
  }
  return true;
}

Poll ReturnLine::poll() {
  // At most one step of each kind, so that one poll stays short.
  constexpr uint64_t kLookAhead = 1;
  bool moved = false;
  if (put_ < chunks_ && put_ <= got_ + kLookAhead) {
    put();
    moved = true;
  }
  if (reduced_ < put_ && all_passed(&SegmentHeader::put, reduced_)) {
    reduce_own();
    moved = true;
  }
  if (got_ < reduced_ && all_passed(&SegmentHeader::done, got_)) {
    get();
    moved = true;
  }
  if (mismatch_) return Poll::kMismatch;
  if (got_ == chunks_) return Poll::kDone;
  return moved ? Poll::kMoved : Poll::kPending;
}

bool ReturnLine::waits_for(uint32_t peer) const {
  if (peer == ranks_->self()) return false;
  const SegmentHeader& header = (*ranks_)[peer].header();
  const auto behind = [&](const std::atomic<uint64_t>& flag, uint64_t chunk) {
    return !Flag::reached(flag.load(std::memory_order_relaxed), first_ + chunk + 1);
  };
  return (reduced_ < put_ && behind(header.put, reduced_)) || (got_ < reduced_ && behind(header.done, got_));
}

}  // namespace floe
