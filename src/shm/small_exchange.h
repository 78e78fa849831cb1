// Small collectives: each rank publishes its data beside its flag, and reads the slots of all others: one
// crossing. Every rank waits for all of them, whatever it reads, so that two slots in turn are enough.
#pragma once

#include "shm/local_ranks.h"
#include "shm/movement.h"

namespace floe {

class SmallExchange {
 public:
  // What outlives an operation.
  struct State {
    explicit State(uint32_t ranks);
    uint64_t most;      // bytes of a block
    uint64_t turn = 0;  // operations started
    CopyOut copy_out{SegmentLayout::kSmallSlots * SegmentLayout::kSmallSlotBytes};
  };
  static bool fits(const Movement& what, const State& state) {
    return what.block_bytes() <= state.most &&
           what.block_bytes() * what.blocks_in_slot() <= SegmentLayout::kSmallSlotBytes - sizeof(uint64_t);
  }

  SmallExchange(const LocalRanks& ranks, State& state, const Movement& what)
      : ranks_(&ranks), state_(&state), what_(what) {}
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return arrived_; }

 private:
  void publish();
  void combine();

  const LocalRanks* ranks_;
  State* state_;
  Movement what_;
  uint64_t turn_ = 0;     // once published
  uint32_t arrived_ = 0;  // ranks below this one have arrived
};

}  // namespace floe
