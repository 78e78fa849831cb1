#include "coll/algorithms.h"

namespace floe {

Schedule barrier(uint32_t ranks, uint32_t rank) {
  Schedule s;
  std::vector<StepId> before;
  uint16_t round = 0;
  for (uint64_t distance = 1; distance < ranks; distance *= 2, ++round) {
    const auto to = static_cast<uint32_t>((rank + distance) % ranks);
    const auto from = static_cast<uint32_t>((rank + ranks - distance) % ranks);
    s.send(to, round, {}, before);
    before.push_back(s.receive(from, round, {}, before));
  }
  return s;
}

}  // namespace floe
