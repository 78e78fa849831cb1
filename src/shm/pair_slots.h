// Two buffers that each pair of ranks has between it, one in the segment of either: the return line puts
// blocks there, and pairs exchange them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/local_ranks.h"

namespace floe {

// What outlives an operation.
struct PairSlots {
  uint64_t chunks = 0;     // of the return line, of operations made so far
  uint64_t exchanges = 0;  // chunks exchanged likewise
  uint64_t side = 0;       // which of its two buffers a rank writes next: the other one after each of these
};

// The one that `holder` writes on that side: its own at first, and after each exchange the one that it read
// in it. What else happens there ends where it began. DirectPath sets the side where a stream came between.
inline std::byte* pair_slots(const LocalRanks& ranks, uint64_t side, uint32_t holder, uint32_t peer) {
  return side % 2 == 0 ? ranks[holder].blocks(peer) : ranks[peer].blocks(holder);
}

}  // namespace floe
