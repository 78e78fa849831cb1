// A small collective that is called again and again with the same shape: what SmallReduce is to all_reduce,
// where what only others need would take a twelfth of the time.
#pragma once

#include <cstdint>
#include <optional>

#include "reduce/reduce.h"
#include "shm/local_ranks.h"
#include "shm/small_exchange.h"

namespace floe {

class SmallRepeat {
 public:
  static constexpr uint32_t kMostRanks = 16;

  // `shape`: a call of two ranks or more that is small. Its buffers do not matter.
  SmallRepeat(const LocalRanks& ranks, SmallExchange::State& state, const DirectArgs& shape);
  // Whether a turn can start, after up to `looks` looks at a peer that is behind.
  bool find_room(int looks) const {
    for (uint32_t rank = 0; rank < ranks_->size(); ++rank)
      if (!state_->has_room(rank) && !state_->find_room(*ranks_, rank, looks)) return false;
    return true;
  }
  // Publishes, and looks `looks` times for each peer's data. False if not all had come: rest() goes on.
  bool operator()(const void* send, void* recv, uint32_t hash, int looks) const;
  SmallExchange rest(const void* send, void* recv, uint32_t hash) const;

 private:
  uint64_t publish(const void* send, uint32_t hash) const;
  // Where this rank's block is in the slot of `rank`.
  uint64_t slot_offset(uint32_t rank) const {
    return Movement::place(shape_.pattern, rank, ranks_->self()) * block_;
  }

  const LocalRanks* ranks_;
  SmallExchange::State* state_;
  DirectArgs shape_;
  uint64_t block_;        // bytes
  uint64_t slot_bytes_;   // of all blocks in a slot
  uint64_t own_offset_;   // this rank's block in its own send buffer
  uint64_t sent_offset_;  // that of the only other rank
  uint64_t recv_stride_;  // from one source's block to the next in the receive buffer
  uint32_t begin_, end_;  // the ranks that this one reads from, itself apart
  SmallWay way_;
  bool publishes_;
  bool one_block_;  // at most, in its slot
  bool keeps_own_;
  std::optional<FixedReduction> reduction_;
};

}  // namespace floe
