// The building block of reduce and reduce_scatter: part i of everybody's kSend goes straight to
// rank i, which adds them in rank order.
#pragma once

#include "coll/algorithms.h"

namespace floe {

struct DirectReduceScatter {
  StepId reduced;            // this rank's part is in its place
  std::vector<StepId> sent;  // by rank: its part of kSend has been sent; the own entry is `reduced`
};

// Leaves this rank's part at `to`. Messages have tag 0.
DirectReduceScatter direct_reduce_scatter(Schedule& s, uint32_t ranks, uint32_t rank, Elements data,
                                          Range to);

}  // namespace floe
