// How the parts of a large all_reduce travel: in chunks, each a message of one packet where packets have as
// much room, so that what has come is added and passed on while the rest is on its way.
#pragma once

#include <algorithm>
#include <vector>

#include "coll/algorithms.h"

namespace floe {

// Chunks of a part of `bytes`: of 60 KiB, or less, down to 16, where there are not eight of them, and not so
// many that a schedule of many ranks outgrows 16-bit tags. With its headers a chunk of 60 KiB still goes down
// from TCP in one piece, of at most 64 KiB in whole segments, which the card cuts; one of 64 KiB goes in two,
// of which the second is next to nothing and costs both sides as much.
inline uint32_t chunk_count(uint64_t bytes, uint32_t most) {
  constexpr uint64_t kSmallest = 16 << 10, kMost = 60 << 10;
  const uint64_t size = std::clamp(bytes / 8, kSmallest, kMost);
  return static_cast<uint32_t>(std::clamp<uint64_t>((bytes + size - 1) / size, 1, most));
}

// Chunk `index` of `chunks` of `whole`; chunk 0 of part 0 is one of the largest.
inline Range chunk(Range whole, uint64_t element, uint32_t chunks, uint32_t index) {
  Range range = part(whole.buffer, {whole.bytes / element, element}, chunks, index);
  range.offset += whole.offset;
  return range;
}

// The slots of a chunk in turn, and the steps that must have ended before each is used again.
class Slots {
 public:
  Slots() = default;
  Slots(Schedule& s, uint32_t count, uint64_t bytes, bool narrow) : users_(count) {
    for (uint32_t i = 0; i < count; ++i) places_.push_back({Buffer::kScratch, s.scratch(bytes), 0, narrow});
  }

  Range place(uint32_t turn, uint64_t bytes) const {
    Range range = places_[turn % places_.size()];
    range.bytes = bytes;
    return range;
  }
  std::vector<StepId>& of(uint32_t turn) { return users_[turn % users_.size()]; }

 private:
  std::vector<Range> places_;
  std::vector<std::vector<StepId>> users_;
};

}  // namespace floe
