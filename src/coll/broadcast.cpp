#include "coll/algorithms.h"

namespace floe {

Schedule broadcast(uint32_t ranks, uint32_t rank, Elements data, uint32_t root) {
  Schedule s;
  const Range all = {Buffer::kRecv, 0, data.bytes()};
  const uint32_t me = (rank + ranks - root) % ranks;  // position in a tree whose root is 0
  const auto real = [&](uint32_t position) { return (position + root) % ranks; };

  // The parent is `me` without its lowest set bit; children add each lower bit, the largest subtree first.
  const uint32_t lowest = me == 0 ? 0 : me & (~me + 1);
  uint32_t bit = 1;
  while (bit < ranks && (lowest == 0 || bit < lowest)) bit <<= 1;
  std::vector<StepId> have;
  if (me != 0) have.push_back(s.receive(real(me - lowest), 0, all));
  for (bit >>= 1; bit != 0; bit >>= 1)
    if (me + bit < ranks) s.send(real(me + bit), 0, all, have);
  return s;
}

}  // namespace floe
