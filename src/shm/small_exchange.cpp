#include "shm/small_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/copy.h"

namespace floe {
namespace {

// The call alone is a good part of what copying a word or two costs. Not copy_small(): more than that it does
// in a row of small moves, which all_reduce of 64 B shows.
void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes > 2 * sizeof(uint64_t) || bytes < sizeof(uint64_t)) {
    copy_bytes(to, from, bytes);
    return;
  }
  std::array<uint64_t, 2> words;
  const uint64_t last = bytes - sizeof(uint64_t);
  std::memcpy(&words[0], from, sizeof(uint64_t));
  std::memcpy(&words[1], from + last, sizeof(uint64_t));
  std::memcpy(to, &words[0], sizeof(uint64_t));
  std::memcpy(to + last, &words[1], sizeof(uint64_t));
}

// Whether a turn, one of the last kSmallSlots, has been published there. No peer is as far ahead as that.
bool has_come(uint64_t flag, uint64_t turn) {
  return Flag::within(flag, turn, uint64_t{2} * SegmentLayout::kSmallSlots);
}

}  // namespace

// ---- What outlives an operation -------------------------------------------------------------------------

bool SmallExchange::State::find_room(const LocalRanks& ranks, uint32_t rank, int looks) {
  // A look takes a line away from the peer, and its next publication in it takes longer then: half of the
  // slots at once, if they are about to become free.
  constexpr uint64_t kSlots = SegmentLayout::kSmallSlots;
  const uint64_t needed = turn + 2 - kSlots, half = needed + kSlots / 2 - 1;
  for (const uint64_t wanted : {half, needed}) {
    const SmallSlot slot = this->slot(ranks[rank], wanted);
    for (int look = 0; look <= looks; ++look) {
      if (!has_come(slot.flag(), wanted)) continue;
      seen[rank] = wanted;
      return true;
    }
  }
  return false;
}

uint64_t SmallExchange::State::publish(const LocalRanks& ranks, const void* data, uint64_t bytes,
                                       uint32_t hash, SmallWay way) {
  if (way == SmallWay::kExchanged) {
    copy_bytes(begin(ranks, bytes, way), data, bytes);
    return end(ranks, bytes, hash, way);
  }
  take_turn(ranks, way);
  const SmallSlot slot(ranks.own(), turn, way);
  copy(slot.data(bytes), static_cast<const std::byte*>(data), bytes);
  slot.publish(Flag::word(turn, hash));
  // Who is ahead of those who read has no time to spend on more than a few lines.
  if (way == SmallWay::kAnswered || bytes <= SmallSlot::kFew) slot.pass_on(bytes);
  take_back(ranks, bytes, way);
  return turn;
}

std::byte* SmallExchange::State::begin(const LocalRanks& ranks, uint64_t bytes, SmallWay way) {
  take_turn(ranks, way);
  if (way == SmallWay::kExchanged) ++exchanges;
  return data(ranks, ranks.self(), turn, bytes, way);
}

uint64_t SmallExchange::State::end(const LocalRanks& ranks, uint64_t bytes, uint32_t hash,
                                   SmallWay way) const {
  const SmallSlot slot(ranks.own(), turn, way);
  slot.publish(Flag::word(turn, hash));
  if (way == SmallWay::kExchanged && bytes <= kMostDemoted)
    demote(data(ranks, ranks.self(), turn, bytes, way), bytes);
  if (way != SmallWay::kAhead) slot.pass_on(way == SmallWay::kAnswered ? bytes : 0);
  take_back(ranks, bytes, way);
  return turn;
}

// ---- An operation ---------------------------------------------------------------------------------------

// Looks whether there is room now.
bool SmallExchange::find_room(uint32_t peer) const {
  const uint64_t last = state_->turn, needed = last + 2 - SegmentLayout::kSmallSlots;
  uint64_t& seen = state_->seen[peer];
  // Its latest turn if it is up to date, which lasts for some turns; else the one that is needed.
  for (const uint64_t turn : {last, needed})
    if (seen < turn && has_come(state_->slot((*ranks_)[peer], turn).flag(), turn)) seen = turn;
  return state_->has_room(peer);
}

bool SmallExchange::room() const {
  for (uint32_t peer = 0; peer < ranks_->size(); ++peer)
    if (!state_->has_room(peer) && !find_room(peer)) return false;
  return true;
}

void SmallExchange::publish() {
  const uint32_t hash = what_.args().hash;
  if (what_.blocks_in_slot() > 1) {
    what_.publish(copy_small, state_->begin(*ranks_, slot_bytes(), way()), 0, what_.block_bytes());
    turn_ = state_->end(*ranks_, slot_bytes(), hash, way());
  } else {
    const uint32_t self = ranks_->self();
    const uint64_t bytes = what_.publishes(self) ? what_.block_bytes() : 0;
    turn_ = state_->publish(*ranks_, what_.sent(self == 0 ? 1 : 0), bytes, hash, way());
  }
}

void SmallExchange::combine() {
  const uint32_t self = ranks_->self(), n = ranks_->size();
  const uint64_t bytes = what_.block_bytes();
  const auto data = [&](uint32_t rank) { return state_->data(*ranks_, rank, turn_, slot_bytes(), way()); };
  if (what_.args().pattern.reduces) {
    if (what_.reads(self)) what_.reduce_all(data, 0, bytes);
    return;
  }
  Movement::Copy& copy = way() == SmallWay::kExchanged ? copy_from_exchange : copy_from_slot;
  what_.keep_own(0, bytes);
  for (uint32_t rank = 0; rank < n; ++rank)
    if (what_.reads_from(rank)) what_.keep(rank, data(rank), 0, bytes, copy);
}

// Whether `peer` has published this turn in a slot of another kind: it was called with something else.
bool SmallExchange::is_elsewhere(uint32_t peer) const {
  for (const SmallWay other : {SmallWay::kAnswered, SmallWay::kLine, SmallWay::kHalfLine}) {
    const SmallSlot slot((*ranks_)[peer], turn_, other);
    if (slot != this->slot(peer) && has_come(slot.flag(), turn_)) return true;
  }
  return false;
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
    const uint64_t word = slot(arrived_).flag();
    if (word != wanted && (has_come(word, turn_) || is_elsewhere(arrived_))) return Poll::kMismatch;
    if (word != wanted) return first ? Poll::kMoved : Poll::kPending;
    state_->seen[arrived_] = turn_;
  }
  combine();
  return Poll::kDone;
}

bool SmallExchange::waits_for(uint32_t peer) const {
  if (turn_ == 0) return !state_->has_room(peer) && !find_room(peer);
  return peer >= arrived_ && what_.reads_from(peer) && !has_come(slot(peer).flag(), turn_) &&
         !is_elsewhere(peer);
}

}  // namespace floe
