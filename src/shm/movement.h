// What a collective moves through shared memory, apart from how: which ranks publish which blocks, and what
// those that read make of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "reduce/reduce.h"
#include "shm/per_rank.h"

namespace floe {

struct Pattern {
  enum class Ranks : uint8_t { kAll, kRoot, kOthers };
  Ranks publish;
  Ranks read;
  bool block_each;  // publishers have a block for every rank, otherwise one for all
  bool reduces;     // readers add what all ranks have, in rank order; otherwise they keep it by rank

  bool operator==(const Pattern&) const = default;
  // Whether every rank waits for all others.
  bool exchanges() const { return publish == Ranks::kAll && read == Ranks::kAll; }
};

namespace pattern {
using enum Pattern::Ranks;
constexpr Pattern kAllReduce = {kAll, kAll, false, true};
constexpr Pattern kReduce = {kOthers, kRoot, false, true};
constexpr Pattern kReduceScatter = {kAll, kAll, true, true};
constexpr Pattern kBroadcast = {kRoot, kOthers, false, false};
constexpr Pattern kAllGather = {kAll, kAll, false, false};
constexpr Pattern kGather = {kOthers, kRoot, false, false};
constexpr Pattern kScatter = {kRoot, kOthers, true, false};
constexpr Pattern kAllToAll = {kAll, kAll, true, false};
constexpr Pattern kBarrier = {kAll, kAll, false, false};
}  // namespace pattern

// What a collective was called with; the arguments have been checked.
struct DirectArgs {
  Pattern pattern = pattern::kBarrier;
  const void* send = nullptr;  // one block, or one for each rank, by rank
  void* recv = nullptr;        // likewise; may overlap `send` as the in-place forms do
  uint64_t count = 0;          // elements of a block
  int type = 0;
  int op = 0;
  uint32_t root = 0;
  uint32_t hash = 0;  // of the collective's descriptor: ranks that disagree must not exchange data
};

// A block in pieces, from its end to its beginning: whoever has just written more than a cache holds has the
// end there still, and whoever reads the result next begins at its beginning.
class Chunks {
 public:
  Chunks(uint64_t bytes, uint64_t piece)
      : bytes_(bytes), piece_(piece), count_((bytes + piece - 1) / piece) {}
  uint64_t count() const { return count_; }
  uint64_t piece() const { return piece_; }  // bytes of each but the first, which may be shorter
  uint64_t begin(uint64_t chunk) const { return (count_ - 1 - chunk) * piece_; }
  uint64_t bytes(uint64_t chunk) const { return std::min(piece_, bytes_ - begin(chunk)); }

 private:
  uint64_t bytes_, piece_, count_;
};

// One rank's side of it. Slots are what ranks publish: the same part of each of its blocks for others, one
// after another.
class Movement {
 public:
  Movement(const DirectArgs& args, uint32_t ranks, uint32_t self)
      : args_(args), ranks_(ranks), self_(self), bytes_(args.count * type_size(args.type)) {}

  const DirectArgs& args() const { return args_; }
  uint64_t block_bytes() const { return bytes_; }
  uint32_t blocks_in_slot() const { return args_.pattern.block_each ? ranks_ - 1 : 1; }
  // Where in the slot of `publisher` that for `reader` begins, in blocks.
  static uint32_t place(const Pattern& pattern, uint32_t publisher, uint32_t reader) {
    return pattern.block_each ? reader - (reader > publisher ? 1 : 0) : 0;
  }
  uint32_t place(uint32_t publisher, uint32_t reader) const {
    return place(args_.pattern, publisher, reader);
  }
  bool publishes(uint32_t rank) const { return contains(args_.pattern.publish, rank); }
  bool reads(uint32_t rank) const { return contains(args_.pattern.read, rank); }
  // Whether this rank needs something of `peer`.
  bool reads_from(uint32_t peer) const { return peer != self_ && reads(self_) && publishes(peer); }

  // Where the block for rank `reader` begins in the send buffer, and that of `source` in the receive buffer.
  const std::byte* sent(uint32_t reader) const {
    return static_cast<const std::byte*>(args_.send) + (args_.pattern.block_each ? reader * bytes_ : 0);
  }
  std::byte* kept(uint32_t source) const {
    return static_cast<std::byte*>(args_.recv) + (keeps_one() ? 0 : source * bytes_);
  }

  // Bytes [begin, begin + bytes) of each block, `bytes` apart in the slot, by copy(to, from, bytes).
  template <class Out>
  void publish(Out&& copy, std::byte* slot, uint64_t begin, uint64_t bytes) const {
    if (bytes == 0 || !publishes(self_)) return;
    if (!args_.pattern.block_each) return copy(slot, sent(0) + begin, bytes);
    for (uint32_t reader = 0; reader < ranks_; ++reader)
      if (reader != self_) copy(slot + place(self_, reader) * bytes, sent(reader) + begin, bytes);
  }
  // What this rank keeps, of all blocks.
  uint64_t kept_bytes() const { return keeps_one() ? bytes_ : ranks_ * bytes_; }
  // The same part, from the slot of `source`, which publishes; or this rank's own.
  using Copy = void(std::byte* to, const std::byte* from, uint64_t bytes);
  static Copy ordinary;
  template <class From>
  void keep(uint32_t source, const std::byte* slot, uint64_t begin, uint64_t bytes, const From& copy) const {
    if (bytes != 0) copy(kept(source) + begin, slot + place(source, self_) * bytes, bytes);
  }
  // Whether this rank keeps a block of its own.
  bool keeps_own() const {
    const bool one_for_all = args_.pattern.publish == Pattern::Ranks::kRoot && !args_.pattern.block_each;
    return !one_for_all && (args_.pattern.block_each ? publishes(self_) : reads(self_));
  }
  void keep_own(uint64_t begin, uint64_t bytes, Copy& copy = ordinary) const;
  // Adds what all have. slot_of(rank): those of the other ranks; from(rank): where theirs is.
  template <class SlotOf>
  void reduce_all(const SlotOf& slot_of, uint64_t begin, uint64_t bytes) const {
    reduce_from([&](uint32_t rank) { return slot_of(rank) + place(rank, self_) * bytes; }, begin, bytes);
  }
  template <class From>
  void reduce_from(const From& from, uint64_t begin, uint64_t bytes) const {
    if (bytes == 0) return;
    PerRank<const void*> sources(ranks_);
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      sources[rank] = rank == self_ ? sent(self_) + begin : from(rank);
    void* const destination[] = {kept(self_) + begin};
    reduce(destination, sources.first(ranks_), elements(bytes, args_.type), args_.type, args_.op, ranks_);
  }

 private:
  // Where the root alone publishes there is one source, and room for no more.
  bool keeps_one() const { return args_.pattern.reduces || args_.pattern.publish == Pattern::Ranks::kRoot; }
  bool contains(Pattern::Ranks ranks, uint32_t rank) const {
    return ranks == Pattern::Ranks::kAll || (ranks == Pattern::Ranks::kRoot) == (rank == args_.root);
  }
  DirectArgs args_;
  uint32_t ranks_;
  uint32_t self_;
  uint64_t bytes_;
};

}  // namespace floe
