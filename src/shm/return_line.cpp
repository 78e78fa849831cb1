#include "shm/return_line.h"

#include <algorithm>
#include <atomic>

#include "base/cache_hints.h"
#include "base/copy.h"
#include "base/types.h"
#include "reduce/reduce.h"
#include "shm/per_rank.h"

namespace floe {

ReturnLine::ReturnLine(const LocalRanks& ranks, PairSlots& slots, const Movement& what)
    : ranks_(&ranks),
      what_(what),
      full_(ranks.own().layout().block_bytes),
      chunks_(what.block_bytes(), full_ * ranks.size()),
      first_(slots.chunks),
      side_(slots.side) {
  slots.chunks += chunks();
}

ReturnLine::Part ReturnLine::part(uint64_t chunk, uint32_t owner) const {
  // Chunks hold whole parts of the full size but the first, which is split evenly at multiples of a line.
  constexpr uint64_t kLine = 64;
  const uint64_t n = ranks_->size();
  const uint64_t chunk_bytes = chunks_.bytes(chunk);
  const uint64_t even = (chunk_bytes + n - 1) / n;
  const uint64_t size = std::min(full_, (even + kLine - 1) / kLine * kLine);
  const uint64_t begin = std::min(chunk_bytes, owner * size);
  return {chunks_.begin(chunk) + begin, std::min(size, chunk_bytes - begin)};
}

std::byte* ReturnLine::slot(uint64_t chunk, uint32_t writer, uint32_t owner) const {
  return pair_slots(*ranks_, side_, writer, owner) +
         (first_ + chunk) % SegmentLayout::kChunkSlots * ranks_->own().layout().block_bytes;
}

void ReturnLine::put() {
  for (uint32_t owner = 0; owner < ranks_->size(); ++owner) {
    if (owner == ranks_->self()) continue;
    const Part p = part(put_, owner);
    copy_bytes(slot(put_, ranks_->self(), owner), what_.sent(owner) + p.begin, p.bytes);
  }
  publish();
}

void ReturnLine::publish() {
  const uint32_t self = ranks_->self();
  const uint64_t chunk = put_++;
  // Release: pairs with the acquire in all_passed(). The slots are free: this rank has read back the chunk
  // that used them before (put_ stays below got_ + kChunkSlots), and its owners wrote nothing since; or they
  // are an outbox that it has read.
  std::atomic<uint64_t>& put = ranks_->own().header().put;
  put.store(Flag::word(first_ + put_, what_.args().hash), std::memory_order_release);
  for (uint32_t owner = 0; owner < ranks_->size(); ++owner)
    if (owner != self) demote(slot(chunk, self, owner), part(chunk, owner).bytes, put);
}

void ReturnLine::answer() {
  const uint32_t n = ranks_->size(), self = ranks_->self();
  const uint64_t chunk = answered_;
  const Part p = part(chunk, self);
  PerRank<const void*> sources(n);
  PerRank<void*> destinations(n);
  uint32_t readers = 0;
  for (uint32_t rank = 0; rank < n; ++rank) {
    std::byte* const theirs = rank == self ? nullptr : slot(chunk, rank, self);
    sources[rank] = rank == self ? what_.sent(self) + p.begin : theirs;
    if (what_.reads(rank)) destinations[readers++] = rank == self ? what_.kept(self) + p.begin : theirs;
  }
  const DirectArgs& args = what_.args();
  reduce(destinations.first(readers), sources.first(n), elements(p.bytes, args.type), args.type, args.op, n);
  ++answered_;
  // Release: pairs with the acquire in all_passed(); what this rank returns is in the slots.
  std::atomic<uint64_t>& done = ranks_->own().header().done;
  done.store(Flag::word(first_ + answered_, args.hash), std::memory_order_release);
  for (uint32_t rank = 0; rank < n; ++rank)
    if (rank != self) demote(slot(chunk, rank, self), p.bytes, done);
}

void ReturnLine::get() {
  const uint32_t self = ranks_->self();
  // What goes there next takes its place.
  const bool refills = put_ < chunks() && put_ == got_ + SegmentLayout::kChunkSlots && what_.reads(self);
  for (uint32_t owner = 0; owner < ranks_->size() && what_.reads(self); ++owner) {
    if (owner == self) continue;
    const Part p = part(got_, owner);
    const Part next = refills ? part(put_, owner) : Part{};
    swap_from_core(what_.kept(owner) + p.begin, p.bytes, slot(got_, self, owner),
                   what_.sent(owner) + next.begin, next.bytes);
  }
  ++got_;
  if (refills) publish();
}

bool ReturnLine::all_passed(std::atomic<uint64_t> SegmentHeader::*flag, uint64_t chunk) {
  const uint64_t wanted = first_ + chunk + 1;
  for (uint32_t peer = 0; peer < ranks_->size(); ++peer) {
    if (peer == ranks_->self()) continue;
    // Acquire: pairs with the releases in put() and answer().
    const uint64_t word = ((*ranks_)[peer].header().*flag).load(std::memory_order_acquire);
    if (!Flag::reached(word, wanted)) return false;
    // The flag is of this operation: a peer goes on to its next one only after this rank's last `done`,
    // and this rank looks at `put` only before that, and a peer's next `done` needs this rank's next put.
    if (Flag::hash(word) != Flag::hash(Flag::word(0, what_.args().hash))) {
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
  if (put_ < chunks() && put_ <= got_ + kLookAhead) {
    put();
    moved = true;
  }
  if (answered_ < put_ && all_passed(&SegmentHeader::put, answered_)) {
    answer();
    moved = true;
  }
  if (got_ < answered_ && all_passed(&SegmentHeader::done, got_)) {
    get();
    moved = true;
  }
  if (mismatch_) return Poll::kMismatch;
  if (got_ == chunks()) return Poll::kDone;
  return moved ? Poll::kMoved : Poll::kPending;
}

bool ReturnLine::waits_for(uint32_t peer) const {
  if (peer == ranks_->self()) return false;
  const SegmentHeader& header = (*ranks_)[peer].header();
  const auto behind = [&](const std::atomic<uint64_t>& flag, uint64_t chunk) {
    return !Flag::reached(flag.load(std::memory_order_relaxed), first_ + chunk + 1);
  };
  return (answered_ < put_ && behind(header.put, answered_)) ||
         (got_ < answered_ && behind(header.done, got_));
}

}  // namespace floe
