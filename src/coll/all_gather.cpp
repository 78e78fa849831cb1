#include "coll/algorithms.h"

namespace floe {

Schedule all_gather(uint32_t rank, const Blocks& to, bool in_place) {
  Schedule s;
  const auto ranks = static_cast<uint32_t>(to.size());
  const Range own = to[rank].in(Buffer::kRecv);
  const Range mine = in_place ? own : Range{Buffer::kSend, 0, own.bytes};
  for (uint32_t step = 1; step < ranks; ++step) {
    const uint32_t dest = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    s.receive(from, 0, to[from].in(Buffer::kRecv));
    s.send(dest, 0, mine);
  }
  if (!in_place) s.copy(own, mine);
  return s;
}

}  // namespace floe
