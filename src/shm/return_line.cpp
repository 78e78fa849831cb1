#include "shm/return_line.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/demote.h"
#include "base/types.h"
#include "reduce/reduce.h"
#include "shm/per_rank.h"

namespace floe {
namespace {

// Slot to `to`, and `from` to the slot. `from` and `to` may be the same, or don't overlap.
void swap_copy(std::byte* slot, const std::byte* from, std::byte* to, uint64_t bytes) {
  // Measured: what is held is best 512 (2048 and 8192 are slower, lines in registers no faster); what need
  // not be is best in the first-level cache until it is overwritten (1024 takes 1.6 times as long).
  constexpr uint64_t kHeld = 512, kPiece = 8192;
  alignas(64) std::array<std::byte, kHeld> held;
  const uint64_t piece = from == to ? kHeld : kPiece;
  for (uint64_t at = 0; at < bytes; at += piece) {
    const uint64_t size = std::min(piece, bytes - at);
    if (from == to) std::memcpy(held.data(), from + at, size);
    std::memcpy(to + at, slot + at, size);
    std::memcpy(slot + at, from == to ? held.data() : from + at, size);
  }
}

}  // namespace

ReturnLine::ReturnLine(const LocalRanks& ranks, State& state, const Movement& what)
    : ranks_(&ranks), what_(what), parts_(what.args().pattern.reduces ? ranks.size() : 2) {
  constexpr uint64_t kSwapped = 128 << 10;
  const uint64_t room = ranks.own().layout().block_bytes;
  full_ = reduces() ? room : std::min(room, kSwapped);
  const uint64_t chunk_bytes = full_ * parts_;
  chunks_ = (what.block_bytes() + chunk_bytes - 1) / chunk_bytes;
  first_ = state.chunks;
  state.chunks += chunks_;
}

ReturnLine::Part ReturnLine::part(uint64_t chunk, uint32_t writer, uint32_t owner) const {
  // Of two that swap the lower one puts the first half.
  const uint32_t index = reduces() ? owner : writer > owner;
  // Chunks hold whole parts of the full size but the last, which is split evenly at multiples of a line.
  constexpr uint64_t kLine = 64;
  const uint64_t chunk_begin = chunk * full_ * parts_;
  const uint64_t chunk_bytes = std::min(what_.block_bytes() - chunk_begin, full_ * parts_);
  const uint64_t even = (chunk_bytes + parts_ - 1) / parts_;
  const uint64_t size = std::min(full_, (even + kLine - 1) / kLine * kLine);
  const uint64_t begin = std::min(chunk_bytes, index * size);
  return {chunk_begin + begin, std::min(size, chunk_bytes - begin)};
}

void ReturnLine::put() {
  const uint32_t self = ranks_->self();
  const Segment& mine = ranks_->own();
  const uint64_t chunk = put_;
  for (uint32_t owner = 0; owner < ranks_->size(); ++owner) {
    if (owner == self) continue;
    const Part p = part(chunk, self, owner);
    std::memcpy(mine.block(first_ + chunk, owner), what_.sent(owner) + p.begin, p.bytes);
  }
  ++put_;
  // Release: pairs with the acquire in all_passed(). The slots are free: this rank has read back the chunk
  // that used them before (put_ stays below got_ + kChunkSlots), and its owners wrote nothing since.
  mine.header().put.store(Flag::word(first_ + put_, what_.args().hash), std::memory_order_release);
  for (uint32_t owner = 0; owner < ranks_->size(); ++owner)
    if (owner != self)
      demote(mine.block(first_ + chunk, owner), part(chunk, self, owner).bytes, mine.header().put);
}

void ReturnLine::reduce_own() {
  const uint32_t n = ranks_->size(), self = ranks_->self();
  const Part p = part(answered_, self, self);
  PerRank<const void*> sources(n);
  PerRank<void*> destinations(n);
  uint32_t readers = 0;
  for (uint32_t rank = 0; rank < n; ++rank) {
    std::byte* const slot = rank == self ? nullptr : (*ranks_)[rank].block(first_ + answered_, self);
    sources[rank] = rank == self ? what_.sent(self) + p.begin : slot;
    if (what_.reads(rank)) destinations[readers++] = rank == self ? what_.kept(self) + p.begin : slot;
  }
  const DirectArgs& args = what_.args();
  reduce(destinations.first(readers), sources.first(n), elements(p.bytes, args.type), args.type, args.op, n);
}

void ReturnLine::swap(uint32_t writer) {
  const Part p = part(answered_, writer, ranks_->self());
  std::byte* const slot = (*ranks_)[writer].block(first_ + answered_, ranks_->self());
  swap_copy(slot, what_.sent(writer) + p.begin, what_.kept(writer) + p.begin, p.bytes);
}

void ReturnLine::answer() {
  const uint32_t self = ranks_->self();
  const uint64_t chunk = answered_;
  if (reduces()) {
    reduce_own();
  } else {
    for (uint32_t rank = 0; rank < ranks_->size(); ++rank)
      if (rank != self) swap(rank);
  }
  ++answered_;
  // Release: pairs with the acquire in all_passed(); what this rank returns is in the slots.
  std::atomic<uint64_t>& done = ranks_->own().header().done;
  done.store(Flag::word(first_ + answered_, what_.args().hash), std::memory_order_release);
  for (uint32_t rank = 0; rank < ranks_->size(); ++rank)
    if (rank != self)
      demote((*ranks_)[rank].block(first_ + chunk, self), part(chunk, rank, self).bytes, done);
}

void ReturnLine::get() {
  const uint32_t self = ranks_->self();
  const Segment& mine = ranks_->own();
  for (uint32_t owner = 0; owner < ranks_->size() && what_.reads(self); ++owner) {
    if (owner == self) continue;
    const Part p = part(got_, self, owner);
    std::memcpy(what_.kept(owner) + p.begin, mine.block(first_ + got_, owner), p.bytes);
  }
  if (!reduces()) {
    const uint64_t chunk = parts_ * full_, begin = got_ * chunk;
    what_.keep_own(begin, std::min(chunk, what_.block_bytes() - begin));
  }
  ++got_;
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
  if (put_ < chunks_ && put_ <= got_ + kLookAhead) {
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
  if (got_ == chunks_) return Poll::kDone;
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
