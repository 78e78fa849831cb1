#include "coll/algorithms.h"

namespace floe {

Schedule all_gather(uint32_t ranks, uint32_t rank, Elements block, bool in_place) {
  Schedule s;
  const auto place = [&](uint32_t of) { return Range{Buffer::kRecv, of * block.bytes(), block.bytes()}; };
  const Range mine = in_place ? place(rank) : Range{Buffer::kSend, 0, block.bytes()};
  for (uint32_t step = 1; step < ranks; ++step) {
    s.receive((rank + ranks - step) % ranks, 0, place((rank + ranks - step) % ranks));
    s.send((rank + step) % ranks, 0, mine);
  }
  if (!in_place) s.copy(place(rank), mine);
  return s;
}

}  // namespace floe
