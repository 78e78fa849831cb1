// Large reductions of a block that all ranks have, "return the line": each rank copies the part that another
// one adds into a slot, and that one writes the sum into the very slot that it read. See README.md.
#pragma once

#include "shm/local_ranks.h"
#include "shm/movement.h"
#include "shm/pair_slots.h"

namespace floe {

class ReturnLine {
 public:
  // A chunk has one block for each rank, its owner, who returns the sum.
  ReturnLine(const LocalRanks& ranks, PairSlots& slots, const Movement& what);
  uint64_t chunks() const { return chunks_.count(); }
  // Numbers of its chunks: all from first() on, below end().
  uint64_t first() const { return first_; }
  uint64_t end() const { return first_ + chunks(); }
  // Whether `peer` has come to it, and put a chunk.
  bool has_put(uint32_t peer) const {
    return Flag::reached((*ranks_)[peer].header().put.load(std::memory_order_relaxed), first_ + 1);
  }
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return mismatch_with_; }

 private:
  struct Part {
    uint64_t begin;  // bytes from the start of the block
    uint64_t bytes;
  };
  Part part(uint64_t chunk, uint32_t owner) const;
  // What `writer` puts for `owner`, and finds in the end.
  std::byte* slot(uint64_t chunk, uint32_t writer, uint32_t owner) const;
  void put();      // chunk put_
  void publish();  // that: its slots are filled
  void answer();
  void get();  // chunk got_, and puts the one that is next in its slots
  // Whether all peers' flags have passed `chunk`; false and mismatch_ set if one disagrees.
  bool all_passed(std::atomic<uint64_t> SegmentHeader::*flag, uint64_t chunk);

  const LocalRanks* ranks_;
  Movement what_;
  uint64_t full_;                              // bytes of a part, but in the first chunk
  Chunks chunks_;                              // of all owners' parts
  uint64_t first_;                             // number of chunk 0
  uint64_t side_;                              // see PairSlots
  uint64_t put_ = 0, answered_ = 0, got_ = 0;  // chunks
  bool mismatch_ = false;
  uint32_t mismatch_with_ = 0;
};

}  // namespace floe
