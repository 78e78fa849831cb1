// A small all_reduce that is called again and again with the same count, type and operation: the way of
// SmallExchange, with all that does not depend on the buffers decided before.
#pragma once

#include <cstdint>

#include "reduce/reduce.h"
#include "shm/local_ranks.h"
#include "shm/small_exchange.h"

namespace floe {

class SmallReduce {
 public:
  static constexpr uint32_t kMostRanks = 16;

  SmallReduce(const LocalRanks& ranks, SmallExchange::State& state, uint64_t count, int type, int op);
  bool is(uint64_t count, int type, int op) const { return count == count_ && type == type_ && op == op_; }
  uint64_t bytes() const { return bytes_; }
  // Whether a turn can start at once.
  bool has_room() const {
    for (uint32_t rank = 0; rank < ranks_->size(); ++rank)
      if (!state_->has_room(rank)) return false;
    return true;
  }
  // Publishes, and looks `looks` times for each peer's data. False if not all had come: rest() goes on.
  bool operator()(const void* send, void* recv, uint32_t hash, int looks) const;
  SmallExchange rest(const void* send, void* recv, uint32_t hash) const;

 private:
  const LocalRanks* ranks_;
  SmallExchange::State* state_;
  uint64_t count_;
  int type_, op_;
  uint64_t bytes_;
  SmallWay way_;
  FixedReduction reduction_;
};

}  // namespace floe
