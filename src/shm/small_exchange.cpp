#include "shm/small_exchange.h"

#include <cstring>

namespace floe {
namespace {

std::atomic<uint64_t>& flag_of(std::byte* slot) { return *reinterpret_cast<std::atomic<uint64_t>*>(slot); }
std::byte* data_of(std::byte* slot) { return slot + sizeof(uint64_t); }

}  // namespace

uint64_t SmallExchange::flag(uint32_t peer, uint64_t turn) const {
  // Acquire: pairs with the release in publish().
  return flag_of((*ranks_)[peer].small_slot(turn)).load(std::memory_order_acquire);
}

// Whether `peer` has finished the turn whose slot this rank takes next.
bool SmallExchange::has_room(uint32_t peer) const {
  const uint64_t last = state_->turn, needed = last + 2 - SegmentLayout::kSmallSlots;
  uint64_t& seen = state_->seen[peer];
  const auto enough = [&] { return seen + SegmentLayout::kSmallSlots > last + 1; };
  if (peer == ranks_->self() || enough()) return true;
  // Its latest turn if it is up to date, which lasts for some turns; else the one that is needed.
  for (const uint64_t turn : {last, needed})
    if (seen < turn && Flag::reached(flag(peer, turn), turn)) seen = turn;
  return enough();
}

bool SmallExchange::room() const {
  for (uint32_t peer = 0; peer < ranks_->size(); ++peer)
    if (!has_room(peer)) return false;
  return true;
}

void SmallExchange::publish() {
  turn_ = ++state_->turn;
  std::byte* const slot = ranks_->own().small_slot(turn_);
  const auto copy = [](std::byte* to, const std::byte* from, uint64_t bytes) {
    std::memcpy(to, from, bytes);
  };
  what_.publish(copy, data_of(slot), 0, what_.block_bytes());
  // Release: pairs with the acquire in flag(). The data before it is visible to whoever reads this turn. The
  // slot is free: see room().
  flag_of(slot).store(Flag::word(turn_, what_.args().hash), std::memory_order_release);
}

void SmallExchange::combine() {
  const uint32_t self = ranks_->self(), n = ranks_->size();
  const uint64_t bytes = what_.block_bytes();
  const auto data = [&](uint32_t rank) { return data_of((*ranks_)[rank].small_slot(turn_)); };
  if (what_.args().pattern.reduces) {
    if (what_.reads(self)) what_.reduce_all(data, 0, bytes);
    return;
  }
  what_.keep_own(0, bytes);
  for (uint32_t rank = 0; rank < n; ++rank)
    if (what_.reads_from(rank)) what_.keep(rank, data(rank), 0, bytes);
}

Poll SmallExchange::poll() {
  const bool first = turn_ == 0;
  if (first) {
    if (!room()) return Poll::kPending;
    publish();
  }
  const uint64_t wanted = Flag::word(turn_, what_.args().hash);
  for (; arrived_ < ranks_->size(); ++arrived_) {
    if (!what_.reads_from(arrived_)) continue;
    const uint64_t word = flag(arrived_, turn_);
    if (word != wanted && Flag::reached(word, turn_)) return Poll::kMismatch;
    if (word != wanted) return first ? Poll::kMoved : Poll::kPending;
    state_->seen[arrived_] = turn_;
  }
  combine();
  return Poll::kDone;
}

bool SmallExchange::waits_for(uint32_t peer) const {
  if (turn_ == 0) return !has_room(peer);
  return peer >= arrived_ && what_.reads_from(peer) && !Flag::reached(flag(peer, turn_), turn_);
}

}  // namespace floe
