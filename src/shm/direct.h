// Collectives straight on shared memory, for communicators whose ranks are all on this host. They are
// state machines: poll() does what can be done now and never blocks. See README.md for the protocols.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "shm/segment.h"

namespace floe {

// What an all_reduce was called with; the arguments have been checked.
struct DirectArgs {
  const void* send = nullptr;  // may equal recv
  void* recv = nullptr;
  uint64_t count = 0;
  int type = 0;
  int op = 0;
  uint32_t hash = 0;  // of the collective's descriptor: ranks that disagree must not exchange data
};

enum class Poll {
  kPending,  // nothing could be done
  kMoved,    // something was done
  kDone,
  kMismatch,  // a peer was called with something else; mismatch_with() says which
};

class DirectAllReduce;

// The direct collectives of one communicator. Operations are made and finished one after the other, in
// the same order on all ranks.
class DirectPath {
 public:
  DirectPath(std::vector<std::shared_ptr<Segment>> segments, uint32_t self);

  uint32_t ranks() const { return static_cast<uint32_t>(segments_.size()); }
  uint32_t self() const { return self_; }
  Segment& segment(uint32_t rank) const { return *segments_[rank]; }

  // Takes its turn: made in the same order on all ranks.
  DirectAllReduce all_reduce(const DirectArgs& args);

  // For collectives that run as messages: tells the peers that this rank has entered the one numbered
  // `sequence`, and whether all of them have entered the same, so that a rank that called something else
  // never goes unnoticed, whoever sends to whom. Numbers grow.
  void enter(uint64_t sequence, uint32_t hash);
  enum class Entry { kAbsent, kSame, kDifferent };
  Entry entry(uint32_t peer, uint64_t sequence, uint32_t hash) const;

 private:
  friend class SmallAllReduce;
  friend class LargeAllReduce;

  std::vector<std::shared_ptr<Segment>> segments_;
  uint32_t self_;
  uint64_t small_turn_ = 0;  // small operations started
  uint64_t next_chunk_ = 0;  // chunks of large operations started
};

// Small: each rank publishes its data beside its flag and sums all slots itself: one crossing. With count
// 0 it is the barrier.
class SmallAllReduce {
 public:
  static uint64_t max_bytes(uint32_t ranks);

  SmallAllReduce(DirectPath& path, const DirectArgs& args) : path_(&path), args_(args) {}
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return mismatch_with_; }

 private:
  void publish();
  void combine();

  DirectPath* path_;
  DirectArgs args_;
  uint64_t turn_ = 0;
  bool published_ = false;
  uint32_t arrived_ = 0;  // ranks below this one have arrived
  uint32_t mismatch_with_ = 0;
};

// Large: "return the line". Each rank copies the blocks that others own into its own slots; the owner adds
// them and writes the result back into the very slots it read; each rank then reads its slots back.
class LargeAllReduce {
 public:
  LargeAllReduce(DirectPath& path, const DirectArgs& args);
  uint64_t chunks() const { return chunks_; }
  Poll poll();
  bool waits_for(uint32_t peer) const;
  uint32_t mismatch_with() const { return mismatch_with_; }

 private:
  struct Block {
    uint64_t begin;  // elements from the start of the buffer
    uint64_t count;
  };
  Block block(uint64_t chunk, uint32_t owner) const;
  void put();
  void reduce_own();
  void get();
  // Whether all peers' flags have passed `chunk`; false and mismatch_ set if one disagrees.
  bool all_passed(std::atomic<uint64_t> SegmentHeader::*flag, uint64_t chunk);

  DirectPath* path_;
  DirectArgs args_;
  size_t element_;
  uint64_t chunks_;
  uint64_t first_;                            // global number of chunk 0
  uint64_t put_ = 0, reduced_ = 0, got_ = 0;  // chunks
  bool mismatch_ = false;
  uint32_t mismatch_with_ = 0;
};

// The one of the two that fits the size.
class DirectAllReduce {
 public:
  explicit DirectAllReduce(SmallAllReduce small) : protocol_(small) {}
  explicit DirectAllReduce(const LargeAllReduce& large) : protocol_(large) {}

  Poll poll() {
    return std::visit([](auto& p) { return p.poll(); }, protocol_);
  }
  // Whether the next thing needed is local rank `peer`'s doing.
  bool waits_for(uint32_t peer) const {
    return std::visit([&](const auto& p) { return p.waits_for(peer); }, protocol_);
  }
  uint32_t mismatch_with() const {
    return std::visit([](const auto& p) { return p.mismatch_with(); }, protocol_);
  }
  // Whether all its work together is as short as one poll of a longer one.
  bool is_short() const {
    const auto* large = std::get_if<LargeAllReduce>(&protocol_);
    return !large || large->chunks() == 1;
  }

 private:
  std::variant<SmallAllReduce, LargeAllReduce> protocol_;
};

}  // namespace floe
