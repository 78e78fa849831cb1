// Large reductions, "return the line": a chunk has one block per rank, its owner. Each rank copies the blocks
// that others own into its own slots; the owner adds them and writes the result back into the very slots it
// read; each rank that wants the result then reads its slots back.
#pragma once

#include "shm/local_ranks.h"
#include "shm/movement.h"

namespace floe {

class ReturnLine {
 public:
  // What outlives an operation.
  struct State {
    uint64_t chunks = 0;  // of operations made so far
  };

  // all_reduce, or reduce.
  ReturnLine(const LocalRanks& ranks, State& state, const DirectArgs& args);
  uint64_t chunks() const { return chunks_; }
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return mismatch_with_; }

 private:
  struct Part {
    uint64_t begin;  // elements from the start of the buffer
    uint64_t count;
  };
  Part part(uint64_t chunk, uint32_t owner) const;
  // Whether `rank` is to have the result.
  bool wants(uint32_t rank) const { return args_.pattern.read == Pattern::Ranks::kAll || rank == args_.root; }
  void put();
  void reduce_own();
  void get();
  // Whether all peers' flags have passed `chunk`; false and mismatch_ set if one disagrees.
  bool all_passed(std::atomic<uint64_t> SegmentHeader::*flag, uint64_t chunk);

  const LocalRanks* ranks_;
  DirectArgs args_;
  size_t element_;
  uint64_t chunks_;
  uint64_t first_;                            // number of chunk 0
  uint64_t put_ = 0, reduced_ = 0, got_ = 0;  // chunks
  bool mismatch_ = false;
  uint32_t mismatch_with_ = 0;
};

}  // namespace floe
