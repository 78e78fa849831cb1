// Large all_reduce of buffers that all ranks have in their arenas (floe_mem_alloc): nothing is copied. Each
// rank owns a part: it reads that part of every rank's buffer, adds, and stores the result into every rank's.
//
// A rank whose buffers are such offers them instead of putting its first chunk as ReturnLine does, and waits:
// if all offer, they go on here; if a peer has put a chunk without an offer, all that offered do as it does.
// Which ranks offer is a fact by then, so that all decide alike; ranks with other buffers notice nothing.
//
// Peers write to this rank's buffers, so it must not end the operation early, by abort say, while one does:
// each rank says so while it `touches`, and who ends waits, or fences off a rank that is stopped:
// Group::end_peers_writes().
#pragma once

#include <memory>
#include <vector>

#include "shm/arena.h"
#include "shm/local_ranks.h"
#include "shm/movement.h"
#include "shm/return_line.h"

namespace floe {

class MappedReduce {
 public:
  // What is done in one go: a rank that ends the operation waits for no more than this.
  static constexpr uint64_t kSliceBytes = 256 << 10;

  // What outlives an operation.
  struct State {
    std::vector<std::shared_ptr<Arena>> arenas;  // by rank; none: this rank never offers
    bool mapped = false;                         // all of them are
  };
  // Whether it pays, and this rank can offer. The arenas are mapped at the first that it is true for.
  static bool fits(const LocalRanks& ranks, State& state, const DirectArgs& args);

  MappedReduce(const LocalRanks& ranks, const State& state, PairSlots& slots, const DirectArgs& args);
  Poll poll();
  bool waits_for(uint32_t peer) const;
  // The rank that disagrees, or whose offer is invalid; this one if its buffer is.
  uint32_t mismatch_with() const { return stage_ == Stage::kUsual ? usual_.mismatch_with() : next_; }
  // `peer`, of another process, has begun to write a slice and does not go on: whenever it does, it will
  // change nothing that this rank sees.
  Status fence(uint32_t peer) const;
  bool is_short() const { return part_ <= slice_ && usual_.chunks() == 1; }

 private:
  enum class Stage : uint8_t { kOffer, kAgree, kReduce, kEnd, kUsual };

  struct Part {
    uint64_t begin, count;  // elements
  };
  Part part(uint32_t owner) const;

  void offer();
  Poll agree();
  Poll reduce_slice();
  bool all_done();
  bool begin_touching();
  bool is_offer(uint64_t word) const;  // of this operation
  // `rank`'s buffer; null if it is not within its arena.
  std::byte* buffer(uint32_t rank, const std::atomic<uint64_t> SegmentHeader::*offset) const;

  const LocalRanks* ranks_;
  const State* state_;
  DirectArgs args_;
  ReturnLine usual_;
  uint64_t element_;
  uint64_t part_;         // elements that each rank owns, but for the last ones
  uint64_t slice_;        // elements that one poll reduces
  uint64_t reduced_ = 0;  // elements of this rank's part
  uint32_t next_ = 0;     // ranks below have offered, or are done
  Stage stage_ = Stage::kOffer;
};

}  // namespace floe
