// How many calls of a library a block has.
#pragma once

#include <algorithm>
#include <cstdint>

namespace floe::bench {

// Another library's block came before: the first calls, until the caches hold what this one uses, don't
// count.
struct Calls {
  uint64_t settling = 0, counted = 0;
  uint64_t all() const { return settling + counted; }
};

// As many as fit into `block_us` if each takes `us`, by the calls alone: to write their data and to check
// what came takes longer than few large calls, and would leave a library the fewer the slower its first ones
// are.
inline Calls plan_calls(double us, double block_us) {
  constexpr double kMostSettling = 8, kSettlingUs = 20'000;  // more data than that takes stays in no cache
  constexpr double kFewest = 4, kMost = 100'000;
  return {static_cast<uint64_t>(std::clamp(kSettlingUs / us, 1.0, kMostSettling)),
          static_cast<uint64_t>(std::clamp(block_us / us, kFewest, kMost))};
}

}  // namespace floe::bench
