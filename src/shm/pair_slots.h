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
};

// The one that `holder` writes when that many chunks have been exchanged: its own at first, and after each
// exchange the one that it read in it. What else happens there ends where it began.
inline std::byte* pair_slots(const LocalRanks& ranks, uint64_t exchanges, uint32_t holder, uint32_t peer) {
  return exchanges % 2 == 0 ? ranks[holder].blocks(peer) : ranks[peer].blocks(holder);
}

}  // namespace floe
