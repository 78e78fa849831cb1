#include "shm/small_exchange.h"

#include <algorithm>

#include "shm/per_rank.h"

namespace floe {
namespace {

std::atomic<uint64_t>& flag_of(std::byte* slot) { return *reinterpret_cast<std::atomic<uint64_t>*>(slot); }
std::byte* data_of(std::byte* slot) { return slot + sizeof(uint64_t); }

}  // namespace

// A reader copies from all slots while their owners wait: worth it while that stays near 1 KiB.
SmallExchange::State::State(uint32_t ranks) : most(std::max<uint64_t>(1024 / (ranks - 1), 64)) {}

void SmallExchange::publish() {
  turn_ = ++state_->turn;
  std::byte* const slot = ranks_->own().small_slot(turn_);
  what_.publish(state_->copy_out, data_of(slot), 0, what_.block_bytes());
  // Release: pairs with the acquire in poll(). The data before it is visible to whoever reads this turn.
  // The slot is free: it was last used in turn - 2, which every peer has finished reading, because this
  // rank finished turn - 1 and so saw every peer publish turn - 1.
  flag_of(slot).store(Flag::word(turn_, what_.args().hash), std::memory_order_release);
}

void SmallExchange::combine() {
  const uint32_t self = ranks_->self(), n = ranks_->size();
  const uint64_t bytes = what_.block_bytes();
  if (what_.args().pattern.reduces && what_.reads(self)) {
    PerRank<const std::byte*> slots(n);
    for (uint32_t rank = 0; rank < n; ++rank) slots[rank] = data_of((*ranks_)[rank].small_slot(turn_));
    what_.reduce_all(slots.first(n), 0, bytes);
  } else if (!what_.args().pattern.reduces) {
    what_.keep_own(0, bytes);
    for (uint32_t rank = 0; rank < n && what_.reads(self); ++rank)
      if (rank != self && what_.publishes(rank))
        what_.keep(rank, data_of((*ranks_)[rank].small_slot(turn_)), 0, bytes);
  }
}

Poll SmallExchange::poll() {
  const bool first = turn_ == 0;
  if (first) publish();
  const uint64_t wanted = Flag::word(turn_, what_.args().hash);
  for (; arrived_ < ranks_->size(); ++arrived_) {
    if (arrived_ == ranks_->self()) continue;
    // Acquire: pairs with the release in publish().
    const uint64_t word = flag_of((*ranks_)[arrived_].small_slot(turn_)).load(std::memory_order_acquire);
    if (word == wanted) continue;
    if (Flag::reached(word, turn_)) return Poll::kMismatch;
    return first ? Poll::kMoved : Poll::kPending;
  }
  combine();
  return Poll::kDone;
}

bool SmallExchange::waits_for(uint32_t peer) const {
  if (peer == ranks_->self() || peer < arrived_) return false;
  return !Flag::reached(flag_of((*ranks_)[peer].small_slot(turn_)).load(std::memory_order_relaxed), turn_);
}

}  // namespace floe
