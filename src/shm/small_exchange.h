// Small collectives: each rank publishes its data beside its flag, and reads the slots of those that have
// data for it: one crossing. A rank publishes in every turn, if only to say that it has come so far: who has
// published turn t has finished all before it. So slots are used in turn without acknowledgements.
#pragma once

#include <cstdint>
#include <vector>

#include "shm/local_ranks.h"
#include "shm/movement.h"

namespace floe {

class SmallExchange {
 public:
  // What outlives an operation.
  struct State {
    explicit State(uint32_t ranks) : seen(ranks) {}
    uint64_t turn = 0;           // operations started
    std::vector<uint64_t> seen;  // the last turn that each rank is known to have published
  };
  SmallExchange(const LocalRanks& ranks, State& state, const DirectArgs& args)
      : ranks_(&ranks), state_(&state), what_(args, ranks.size(), ranks.self()) {}
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return arrived_; }

 private:
  // The flag of `peer` in the slot of `turn`, which may hold a later one.
  uint64_t flag(uint32_t peer, uint64_t turn) const;
  bool has_room(uint32_t peer) const;
  bool room() const;
  void publish();
  void combine();

  const LocalRanks* ranks_;
  State* state_;
  Movement what_;
  uint64_t turn_ = 0;     // once published
  uint32_t arrived_ = 0;  // ranks below this one are not waited for any more
};

}  // namespace floe
