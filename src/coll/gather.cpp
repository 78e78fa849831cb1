#include "coll/algorithms.h"

namespace floe {

Schedule gather(uint32_t rank, uint64_t bytes, const Blocks& to, uint32_t root) {
  Schedule s;
  if (rank != root) {
    s.send(root, 0, {Buffer::kSend, 0, bytes});
    return s;
  }
  for (uint32_t from = 0; from < to.size(); ++from)
    if (from != root) s.receive(from, 0, to[from].in(Buffer::kRecv));
  s.copy(to[root].in(Buffer::kRecv),
         {Buffer::kSend, 0, to[root].bytes});  // in place they are the same memory
  return s;
}

Schedule scatter(uint32_t rank, const Blocks& from, uint64_t bytes, uint32_t root) {
  Schedule s;
  if (rank != root) {
    s.receive(root, 0, {Buffer::kRecv, 0, bytes});
    return s;
  }
  for (uint32_t to = 0; to < from.size(); ++to)
    if (to != root) s.send(to, 0, from[to].in(Buffer::kSend));
  s.copy({Buffer::kRecv, 0, from[root].bytes},
         from[root].in(Buffer::kSend));  // in place they are the same memory
  return s;
}

}  // namespace floe
