// Large collectives in which every rank has a block for every other one, which keeps or adds it: each pair of
// ranks exchanges them in the two buffers that it has. Either rank writes into the one that it read in the
// exchange before: its lines have come over with what was read, so that they are fast to write, and nobody
// else has a use for them. One wait for a chunk, and nobody acknowledges anything. See README.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shm/keeping.h"
#include "shm/local_ranks.h"
#include "shm/movement.h"
#include "shm/pair_slots.h"

namespace floe {

class PairExchange {
 public:
  // `keeping`: what outlives an operation, besides the slots.
  PairExchange(const LocalRanks& ranks, PairSlots& slots, Keeping::State& keeping, const Movement& what);
  uint64_t chunks() const { return chunks_.count(); }
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return source_; }

 private:
  // Bytes of each block in a chunk.
  static uint64_t piece(const LocalRanks& ranks, uint64_t block_bytes);
  // Where `writer` puts what it has for `reader`.
  std::byte* slot(uint64_t chunk, uint32_t writer, uint32_t reader) const {
    return pair_slots(*ranks_, side_ + chunk, writer, reader);
  }
  // Of a chunk, alternately: a peer may have put the next one before this rank looks.
  static std::atomic<uint64_t>& flag(const Segment& segment, uint64_t number) {
    return segment.header().exchanged[number % 2];
  }
  void put();      // chunk put_
  void publish();  // that: its slots are filled
  // Keeps what `source` has put in chunk taken_, and puts this rank's next chunk, if there is one, in its
  // place.
  void swap(uint32_t source);
  Poll take();                        // from the peers that have not been read yet; kDone: the chunk is read
  Poll arrival(uint32_t peer) const;  // of chunk taken_

  const LocalRanks* ranks_;
  Movement what_;
  Keeping keeping_;
  Chunks chunks_;                 // of each block
  uint64_t first_;                // number of chunk 0
  uint64_t side_;                 // of chunk 0: see PairSlots
  uint64_t put_ = 0, taken_ = 0;  // chunks of this operation
  uint32_t source_ = 0;           // of chunk taken_, ranks below this one are read
};

}  // namespace floe
