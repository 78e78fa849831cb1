#include "shm/direct.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/types.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

std::atomic<uint64_t>& slot_flag(std::byte* slot) { return *reinterpret_cast<std::atomic<uint64_t>*>(slot); }
std::byte* slot_data(std::byte* slot) { return slot + sizeof(uint64_t); }

// A pointer for each rank, on the stack where they are few.
template <class Pointer>
class PerRank {
 public:
  explicit PerRank(uint32_t ranks) : many_(ranks > few_.size() ? ranks : 0), ranks_(ranks) {}
  Pointer& operator[](uint32_t rank) { return data()[rank]; }
  operator std::span<const Pointer>() { return {data(), ranks_}; }

 private:
  Pointer* data() { return many_.empty() ? few_.data() : many_.data(); }
  std::array<Pointer, 16> few_;
  std::vector<Pointer> many_;
  uint32_t ranks_;
};

}  // namespace

DirectPath::DirectPath(std::vector<std::shared_ptr<Segment>> segments, uint32_t self)
    : segments_(std::move(segments)), self_(self) {}

DirectAllReduce DirectPath::all_reduce(const DirectArgs& args) {
  if (args.count * type_size(args.type) <= SmallAllReduce::max_bytes(ranks()))
    return DirectAllReduce(SmallAllReduce(*this, args));
  return DirectAllReduce(LargeAllReduce(*this, args));
}

void DirectPath::enter(uint64_t sequence, uint32_t hash) {
  // Release: pairs with the acquire in entry(); nothing else is published by it.
  segments_[self_]->header().entered.store(Flag::word(sequence, hash), std::memory_order_release);
}

DirectPath::Entry DirectPath::entry(uint32_t peer, uint64_t sequence, uint32_t hash) const {
  const uint64_t word = segments_[peer]->header().entered.load(std::memory_order_acquire);
  if (Flag::counter(word) < sequence) return Entry::kAbsent;
  // A peer that is in a later collective has compared this one with this rank's.
  if (Flag::counter(word) > sequence) return Entry::kSame;
  return word == Flag::word(sequence, hash) ? Entry::kSame : Entry::kDifferent;
}

// ---- Small ----------------------------------------------------------------------------------------------

uint64_t SmallAllReduce::max_bytes(uint32_t ranks) {
  // Every rank reads all slots: worth it while (ranks - 1) * bytes stays near 1 KiB.
  return std::max<uint64_t>(1024 / (ranks - 1), 64);
}

void SmallAllReduce::publish() {
  turn_ = ++path_->small_turn_;
  std::byte* const slot = path_->segment(path_->self()).small_slot(turn_);
  if (args_.count != 0) std::memcpy(slot_data(slot), args_.send, args_.count * type_size(args_.type));
  // Release: pairs with the acquire in poll(). The data before it is visible to whoever reads this turn.
  // The slot is free: it was last used in turn - 2, which every peer has finished reading, because this
  // rank finished turn - 1 and so saw every peer publish turn - 1.
  slot_flag(slot).store(Flag::word(turn_, args_.hash), std::memory_order_release);
  published_ = true;
}

void SmallAllReduce::combine() {
  const uint32_t n = path_->ranks();
  PerRank<const void*> sources(n);
  for (uint32_t rank = 0; rank < n; ++rank)
    sources[rank] = rank == path_->self() ? args_.send : slot_data(path_->segment(rank).small_slot(turn_));
  void* const dst[] = {args_.recv};
  reduce(dst, sources, args_.count, args_.type, args_.op, n);
}

Poll SmallAllReduce::poll() {
  const bool first = !published_;
  if (first) publish();
  const uint32_t n = path_->ranks();
  for (; arrived_ < n; ++arrived_) {
    if (arrived_ == path_->self()) continue;
    // Acquire: pairs with the release in publish().
    const uint64_t word =
        slot_flag(path_->segment(arrived_).small_slot(turn_)).load(std::memory_order_acquire);
    if (Flag::counter(word) != turn_) return first ? Poll::kMoved : Poll::kPending;
    if (word != Flag::word(turn_, args_.hash)) {
      mismatch_with_ = arrived_;
      return Poll::kMismatch;
    }
  }
  if (args_.count != 0) combine();
  return Poll::kDone;
}

bool SmallAllReduce::waits_for(uint32_t peer) const {
  return peer != path_->self() && peer >= arrived_ &&
         Flag::counter(slot_flag(path_->segment(peer).small_slot(turn_)).load(std::memory_order_relaxed)) !=
             turn_;
}

// ---- Large ----------------------------------------------------------------------------------------------

LargeAllReduce::LargeAllReduce(DirectPath& path, const DirectArgs& args)
    : path_(&path), args_(args), element_(type_size(args.type)) {
  const uint64_t chunk_bytes = path.segment(path.self()).layout().block_bytes * path.ranks();
  chunks_ = (args.count * element_ + chunk_bytes - 1) / chunk_bytes;
  first_ = path.next_chunk_;
  path.next_chunk_ += chunks_;
}

LargeAllReduce::Block LargeAllReduce::block(uint64_t chunk, uint32_t owner) const {
  // Chunks hold whole blocks of the full size but the last, which is split evenly at multiples of a line.
  const uint64_t full = path_->segment(path_->self()).layout().block_bytes / element_;
  const uint64_t chunk_begin = chunk * full * path_->ranks();
  const uint64_t chunk_count = std::min(args_.count - chunk_begin, full * path_->ranks());
  const uint64_t line = 64 / element_;
  const uint64_t even = (chunk_count + path_->ranks() - 1) / path_->ranks();
  const uint64_t size = std::min(full, (even + line - 1) / line * line);
  const uint64_t begin = std::min(chunk_count, owner * size);
  return {chunk_begin + begin, std::min(size, chunk_count - begin)};
}

void LargeAllReduce::put() {
  const Segment& mine = path_->segment(path_->self());
  for (uint32_t owner = 0; owner < path_->ranks(); ++owner) {
    if (owner == path_->self()) continue;
    const Block b = block(put_, owner);
    std::memcpy(mine.block(first_ + put_, owner),
                static_cast<const std::byte*>(args_.send) + b.begin * element_, b.count * element_);
  }
  ++put_;
  // Release: pairs with the acquire in all_passed(). The slots are free: this rank has read back the chunk
  // that used them before (put_ stays below got_ + kChunkSlots), and its owners wrote nothing since.
  mine.header().put.store(Flag::word(first_ + put_, args_.hash), std::memory_order_release);
}

void LargeAllReduce::reduce_own() {
  const uint32_t n = path_->ranks(), self = path_->self();
  const Block b = block(reduced_, self);
  PerRank<const void*> sources(n);
  PerRank<void*> destinations(n);
  for (uint32_t rank = 0; rank < n; ++rank) {
    std::byte* const slot = rank == self ? nullptr : path_->segment(rank).block(first_ + reduced_, self);
    sources[rank] = rank == self ? static_cast<const std::byte*>(args_.send) + b.begin * element_ : slot;
    destinations[rank] = rank == self ? static_cast<std::byte*>(args_.recv) + b.begin * element_ : slot;
  }
  reduce(destinations, sources, b.count, args_.type, args_.op, n);
  ++reduced_;
  // Release: pairs with the acquire in all_passed(); the results are in every rank's slots.
  path_->segment(self).header().done.store(Flag::word(first_ + reduced_, args_.hash),
                                           std::memory_order_release);
}

void LargeAllReduce::get() {
  const Segment& mine = path_->segment(path_->self());
  for (uint32_t owner = 0; owner < path_->ranks(); ++owner) {
    if (owner == path_->self()) continue;
    const Block b = block(got_, owner);
    std::memcpy(static_cast<std::byte*>(args_.recv) + b.begin * element_, mine.block(first_ + got_, owner),
                b.count * element_);
  }
  ++got_;
}

bool LargeAllReduce::all_passed(std::atomic<uint64_t> SegmentHeader::*flag, uint64_t chunk) {
  const uint64_t wanted = first_ + chunk + 1;
  for (uint32_t peer = 0; peer < path_->ranks(); ++peer) {
    if (peer == path_->self()) continue;
    // Acquire: pairs with the releases in put() and reduce_own().
    const uint64_t word = (path_->segment(peer).header().*flag).load(std::memory_order_acquire);
    if (Flag::counter(word) < wanted) return false;
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

Poll LargeAllReduce::poll() {
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

bool LargeAllReduce::waits_for(uint32_t peer) const {
  if (peer == path_->self()) return false;
  const SegmentHeader& header = path_->segment(peer).header();
  const auto behind = [&](const std::atomic<uint64_t>& flag, uint64_t chunk) {
    return Flag::counter(flag.load(std::memory_order_relaxed)) < first_ + chunk + 1;
  };
  return (reduced_ < put_ && behind(header.put, reduced_)) || (got_ < reduced_ && behind(header.done, got_));
}

}  // namespace floe
