#include "coll/algorithms.h"

namespace floe {

Blocks equal_blocks(uint32_t ranks, uint64_t bytes) {
  Blocks blocks(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) blocks[rank] = {rank * bytes, bytes};
  return blocks;
}

}  // namespace floe
