// Small collectives: each rank publishes its data beside its flag, and reads the slots of those that have
// data for it: one crossing. A rank publishes in every turn, if only to say that it has come so far: who has
// published turn t has finished all before it. So slots are used in turn without acknowledgements.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/cache_hints.h"
#include "base/copy.h"
#include "base/pause.h"
#include "shm/local_ranks.h"
#include "shm/movement.h"

namespace floe {

// Where the data of a turn is, and who waits.
enum class SmallWay : uint8_t {
  // In a slot of its own: where all wait for all, or of more than fits beside a flag.
  kAnswered,  // this rank waits for what they publish
  kAhead,     // this rank waits for nobody, and may be ahead of those who read it
  // Two ranks that both read exchange more lines than are fetched with the flag: each writes into the one of
  // two buffers that it read in the exchange before, whose lines have come over with what was read. Nobody
  // else has a use for it: the peer wrote it then, and reads the other one now. Less takes up to a fifth
  // longer so.
  kExchanged,
  // In a narrow slot: what fits beside a flag, where not all wait for all, so that one may be ahead. Half a
  // line each takes half as long as a slot of its own between caches, two thirds within one; a line 4/5 and
  // 2/3 (Zen 4). Where all wait for all it takes up to 1.4 times as long: lines to be written are taken away.
  kLine,
  kHalfLine,
};

// A rank's slot of a turn: its flag, and its data beside it if there is room in the flag's line. More begins
// on the next line, so that no load crosses two: 128 B to 1 KiB take 3 to 10 % less (Zen 5, near).
class SmallSlot {
 public:
  SmallSlot(const Segment& segment, uint64_t turn, SmallWay way) : slot_(at(segment, turn, way)) {}

  // Where `bytes` of data begin.
  static constexpr uint64_t begin(uint64_t bytes) {
    return bytes <= SegmentLayout::kBesideFlag ? sizeof(uint64_t) : kLine;
  }
  std::byte* data(uint64_t bytes) const { return slot_ + begin(bytes); }
  // May be that of a later turn. Acquire: pairs with the release in publish().
  uint64_t flag() const { return word().load(std::memory_order_acquire); }
  // Looks up to `looks` times for that flag. With it the lines up to `end` are fetched if they are few: what
  // has come with the flag need not cross after it. More of them, or looks without a pause, take away lines
  // that their owner is about to write.
  bool wait(uint64_t wanted, uint64_t end, int looks) const {
    const uint64_t fetched = end <= kLine + kFew ? end : 0;
    for (int look = 0;; ++look) {
      for (uint64_t at = kLine; at < fetched; at += kLine) prefetch(slot_ + at);
      if (flag() == wanted) return true;
      if (look == looks) return false;
      pause_cpu();
    }
  }
  // Release: pairs with the acquire in flag(). The data before it is visible to whoever reads this turn.
  void publish(uint64_t flag) const { word().store(flag, std::memory_order_release); }
  // Once it and that many bytes of data have been published, or read: the next one to touch them is another
  // rank.
  void pass_on(uint64_t bytes) const { demote(slot_, begin(bytes) + bytes); }
  // Some turns before its flag is published: the line that a peer has read comes back while ranks wait for
  // each other, and not when it is written.
  void take_back() const { prefetch_to_write(slot_); }

  bool operator==(const SmallSlot&) const = default;

  static constexpr uint64_t kLine = 64;
  static constexpr uint64_t kFew = 256;

 private:
  static std::byte* at(const Segment& segment, uint64_t turn, SmallWay way) {
    if (way == SmallWay::kHalfLine) return segment.narrow_slot(turn, SegmentLayout::kHalfLineSlot);
    if (way == SmallWay::kLine) return segment.narrow_slot(turn, SegmentLayout::kLineSlot);
    return segment.small_slot(turn);
  }
  std::atomic<uint64_t>& word() const { return *reinterpret_cast<std::atomic<uint64_t>*>(slot_); }
  std::byte* slot_;
};

// memcpy() of a few bytes, whose call alone would be a good part of what it takes. `to` may be `from`.
inline void copy_small(std::byte* to, const std::byte* from, uint64_t bytes) {
  const auto ends = [&]<size_t kPart>(std::array<std::byte, kPart> first) {
    std::array<std::byte, kPart> last;
    std::memcpy(first.data(), from, kPart);
    std::memcpy(last.data(), from + bytes - kPart, kPart);
    std::memcpy(to, first.data(), kPart);
    std::memcpy(to + bytes - kPart, last.data(), kPart);
  };
  if (bytes - 8 <= 8) return ends(std::array<std::byte, 8>());
  if (bytes - 16 <= 16) return ends(std::array<std::byte, 16>());
  if (bytes - 32 <= 32) return ends(std::array<std::byte, 32>());
  if (bytes - 4 <= 4) return ends(std::array<std::byte, 4>());
  if (to != from) copy_bytes(to, from, bytes);
}

// From a slot of a peer. Some lines one after the other: where they come from another core, memmove(),
// which loads all of 256 B before it stores any, takes twice as long. Not of an exchange, where it is
// memmove() that takes less: of blocks of 1 KiB a third (Zen 5, far).
inline void copy_from_slot(std::byte* to, const std::byte* from, uint64_t bytes) {
  constexpr uint64_t kLine = SmallSlot::kLine, kMost = 1024;
  if (bytes <= kLine || bytes > kMost) return copy_small(to, from, bytes);
  const auto line = [&](uint64_t at) { copy_small(to + at, from + at, kLine); };
  for (uint64_t at = 0; at + kLine < bytes; at += kLine) line(at);
  line(bytes - kLine);
}

// From the buffer of an exchange.
inline void copy_from_exchange(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (is_fetched_ahead(bytes)) return copy_ahead(to, from, bytes);
  copy_small(to, from, bytes);
}

class SmallExchange {
 public:
  // `answered`: whether this rank reads, too.
  static SmallWay way(const Pattern& pattern, uint64_t slot_bytes, uint32_t ranks, bool answered) {
    if (pattern.exchanges())
      return ranks == 2 && slot_bytes > SmallSlot::kFew ? SmallWay::kExchanged : SmallWay::kAnswered;
    if (slot_bytes <= SegmentLayout::kBesideFlagInHalf) return SmallWay::kHalfLine;
    if (slot_bytes <= SegmentLayout::kBesideFlag) return SmallWay::kLine;
    return answered ? SmallWay::kAnswered : SmallWay::kAhead;
  }
  // What outlives an operation.
  struct State {
    explicit State(uint32_t ranks) : seen(ranks) {}
    // That of one of the last kSmallSlots turns.
    SmallSlot slot(const Segment& segment, uint64_t turn) const {
      return {segment, turn, ways[turn % SegmentLayout::kSmallSlots]};
    }
    // Whether `rank` has finished the turn whose slot this rank takes next, as far as is known.
    bool has_room(uint32_t rank) const { return seen[rank] + SegmentLayout::kSmallSlots > turn + 1; }
    // Looks up to `looks` times for several turns at once, and then for the one.
    bool find_room(const LocalRanks& ranks, uint32_t rank, int looks);
    // Takes a turn, for which there is room, with the same data for all. Returns its number.
    uint64_t publish(const LocalRanks& ranks, const void* data, uint64_t bytes, uint32_t hash, SmallWay way);
    // The same for data that the caller copies to where begin() says.
    std::byte* begin(const LocalRanks& ranks, uint64_t bytes, SmallWay way);
    uint64_t end(const LocalRanks& ranks, uint64_t bytes, uint32_t hash, SmallWay way) const;
    // The slot of a turn so far ahead that no peer looks at it yet, to be filled like this one. Not where
    // more lines than that of the flag are written: what they wait for takes longer on a Zen 5 then.
    void take_back(const LocalRanks& ranks, uint64_t bytes, SmallWay way) const {
      constexpr uint64_t kAhead = 4;
      if (way == SmallWay::kExchanged || bytes > SegmentLayout::kBesideFlag) return;
      SmallSlot(ranks.own(), turn + kAhead, way).take_back();
    }
    // The `bytes` that `rank` has published in that turn, the last one that this rank has taken.
    std::byte* data(const LocalRanks& ranks, uint32_t rank, uint64_t turn, uint64_t bytes,
                    SmallWay way) const {
      if (way == SmallWay::kExchanged) return ranks[(rank + exchanges) % 2].exchange();
      return SmallSlot(ranks[rank], turn, way).data(bytes);
    }
    // Begins the next turn.
    void take_turn(const LocalRanks& ranks, SmallWay way) {
      seen[ranks.self()] = ++turn;
      ways[turn % SegmentLayout::kSmallSlots] = way;
    }

    uint64_t turn = 0;                                        // operations started
    uint64_t exchanges = 0;                                   // of them, those whose data was exchanged
    std::array<SmallWay, SegmentLayout::kSmallSlots> ways{};  // of the last turns
    std::vector<uint64_t> seen;  // the last turn that each rank, this one too, is known to have published
  };
  // `turn`: the one in which this rank has published its part already.
  SmallExchange(const LocalRanks& ranks, State& state, const DirectArgs& args, uint64_t turn = 0)
      : ranks_(&ranks), state_(&state), what_(args, ranks.size(), ranks.self()), turn_(turn) {}
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return arrived_; }

 private:
  SmallSlot slot(uint32_t peer) const { return {(*ranks_)[peer], turn_, way()}; }
  bool is_elsewhere(uint32_t peer) const;
  uint64_t slot_bytes() const { return what_.blocks_in_slot() * what_.block_bytes(); }
  SmallWay way() const {
    return way(what_.args().pattern, slot_bytes(), ranks_->size(), what_.reads(ranks_->self()));
  }
  bool find_room(uint32_t peer) const;
  bool room() const;
  void publish();
  void combine();

  const LocalRanks* ranks_;
  State* state_;
  Movement what_;
  uint64_t turn_;         // once published
  uint32_t arrived_ = 0;  // ranks below this one are not waited for any more
};

}  // namespace floe
