// A choice of protocols in words, for floe-info and floe-bench.
#pragma once

#include <string>
#include <vector>

#include "shm/cost_model.h"

namespace floe {

// A line for each range of sizes: the protocol, up to which bytes of a block, and what the model expects on
// both sides of that limit.
std::vector<std::string> explain(const Cost& cost);
// "2 ranks under one L3 cache".
std::string explain(const Surroundings& where);

}  // namespace floe
