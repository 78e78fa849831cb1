#include "coll/direct_reduce_scatter.h"

namespace floe {

Schedule reduce(uint32_t ranks, uint32_t rank, Elements data, uint32_t root) {
  Schedule s;
  Range to = part(Buffer::kRecv, data, ranks, rank);
  if (rank != root) to = {Buffer::kScratch, s.scratch(to.bytes), to.bytes};
  const auto scatter = direct_reduce_scatter(s, ranks, rank, data, to);
  if (rank != root) {
    s.send(root, 1, to, {scatter.reduced});
    return s;
  }
  for (uint32_t owner = 0; owner < ranks; ++owner)
    if (owner != root) s.receive(owner, 1, part(Buffer::kRecv, data, ranks, owner), {scatter.sent[owner]});
  return s;
}

}  // namespace floe
