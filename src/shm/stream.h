// Large collectives that move data one way, from those that have it to those that need it: every rank copies
// what it has into its outbox, chunk by chunk, and the readers read it there.
//
// Chunks are numbered through all operations, and every rank publishes a flag for every chunk, if only to say
// that it has come so far: a rank publishes chunk u after it has read all chunks up to u - kAhead. So who has
// published u has no more use for those, and nobody acknowledges anything.
//
// The outbox is used round and round, not as few slots: lines that a peer has read lately are slow to
// overwrite while they are still in its cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "shm/copy_out.h"
#include "shm/keeping.h"
#include "shm/local_ranks.h"
#include "shm/movement.h"

namespace floe {

// Where chunks of `bytes` lie in an outbox of `capacity`, as numbers that grow for ever: modulo the capacity
// it is the offset. No chunk wraps.
class StreamLayout {
 public:
  StreamLayout(uint64_t begin, uint64_t bytes, uint64_t capacity)
      : begin_(begin),
        bytes_(bytes),
        capacity_(capacity),
        first_lap_((capacity - begin % capacity) / bytes) {}
  uint64_t at(uint64_t chunk) const;
  uint64_t chunk_bytes() const { return bytes_; }
  // Where what follows `chunks` of them, at least one, may begin.
  uint64_t end(uint64_t chunks) const { return at(chunks - 1) + bytes_; }

 private:
  uint64_t begin_, bytes_, capacity_;
  uint64_t first_lap_;  // chunks before the end of the outbox is reached
};

class Stream {
 public:
  // What outlives an operation.
  struct State {
    // `cache_bytes`: this rank's part of the last-level cache.
    State(const LocalRanks& ranks, uint64_t cache_bytes);
    uint64_t chunks = 0;    // of operations made so far
    uint64_t position = 0;  // where the next one may begin
    uint64_t freed = 0;     // chunks below this one must have been read before the next one is put
    uint64_t returns = 0;   // operations before which blocks lay in the outbox
    std::array<uint64_t, SegmentHeader::kStreamFlags> begins{};  // of this rank's chunks, by number
    CopyOut copy_out;
    Keeping::State keeping;
    std::vector<uint64_t> seen;  // chunks that each rank has published
  };

  // `returned`: blocks have lain in the outbox since the last one. The same on all ranks.
  Stream(const LocalRanks& ranks, State& state, const Movement& what, bool returned);
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return source_; }
  uint64_t chunks() const { return chunks_.count(); }

 private:
  static constexpr uint64_t kAhead = 2;

  bool give_back() const;
  bool has_back();
  bool keeps(uint32_t peer) const;
  uint64_t most_ahead() const;
  void make_room() const;
  bool has_room(uint32_t peer) const;
  bool room() const;
  void put();
  Poll take();                        // from the peers that have not been read yet; kDone: the chunk is read
  Poll arrival(uint32_t peer) const;  // of chunk taken_
  std::byte* slot(uint32_t rank, uint64_t chunk) const;
  // read(): takes that part of chunk taken_ from the slot of `source`.
  template <class Read>
  void read_from(uint32_t source, uint64_t bytes, const Read& read) const;

  const LocalRanks* ranks_;
  State* state_;
  Movement what_;
  Keeping keeping_;
  Chunks chunks_;   // of each block
  uint64_t first_;  // number of chunk 0
  StreamLayout layout_;
  uint64_t put_ = 0, taken_ = 0;  // chunks of this operation
  uint64_t return_ = 0;           // number of the return that it waits for; 0: none
  bool kept_own_ = false;         // this rank's part of chunk taken_
  uint32_t source_ = 0;           // of chunk taken_, ranks below this one are read
};

}  // namespace floe
