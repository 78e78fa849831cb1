// A rank's shared segment: an anonymous, sealed memfd that every rank of the communicator on this host
// maps. Its owner writes its flags, slots, outbox and outgoing rings there; peers only read, but for what
// goes back into memory that they have read: results (return_line.h), and what two ranks exchange
// (pair_exchange.h, small_exchange.h, swap_buffers.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/status.h"
#include "shm/copy_out.h"
#include "shm/latest_record.h"

namespace floe {

// A 64-bit word with the low 24 bits of a collective's hash and a counter: who reads the counter it waits for
// also reads what the peer was called with.
class Flag {
 public:
  static constexpr int kHashBits = 24, kCounterBits = 64 - kHashBits;
  static uint64_t word(uint64_t counter, uint32_t hash) {
    return counter << kHashBits | (hash & ((1u << kHashBits) - 1));
  }
  static uint64_t counter(uint64_t word) { return word >> kHashBits; }
  // Whether it has come to `counter`. Right for any two less than 2^39 apart: 40 bits do wrap, after a day of
  // nothing but the smallest operations.
  static bool reached(uint64_t word, uint64_t wanted) {
    return within(word, wanted, uint64_t{1} << (kCounterBits - 1));
  }
  // Whether it is one of the `many` from `wanted` on: for a word that may be any number of turns old.
  static bool within(uint64_t word, uint64_t wanted, uint64_t many) {
    constexpr uint64_t kMask = (uint64_t{1} << kCounterBits) - 1;
    return ((counter(word) - wanted) & kMask) < many;
  }
  static uint32_t hash(uint64_t word) { return static_cast<uint32_t>(word & ((1u << kHashBits) - 1)); }
};

// Whether a rank still takes part. Written by its owner, read by peers that have waited a while.
enum class RankState : uint32_t { kAlive = 0, kLeft = 1, kFailed = 2 };

struct FaultRecord {
  uint32_t culprit = 0;  // rank
  int32_t code = 0;      // floe_status_t
  std::array<char, 512> text{};
};

// Ranks of a communicator that shrinks.
struct RankSet {
  static constexpr uint32_t kMostRanks = 1024;
  std::array<uint64_t, kMostRanks / 64> words{};

  bool has(uint32_t rank) const { return (words[rank / 64] >> rank % 64 & 1) != 0; }
  void add(uint32_t rank) { words[rank / 64] |= uint64_t{1} << rank % 64; }
  bool operator==(const RankSet&) const = default;
};

// What a host has promised and accepted while ranks of several hosts agree: see comm/agreement.h. In the
// segment of its lowest rank; written by the lowest one that lives, so that it goes on where a dead one was.
struct HostVote {
  struct Value {
    uint64_t attempt;
    RankSet ranks;
  };
  struct Record {
    uint64_t promised = 0, accepted = 0;  // ballots
    uint64_t attempt = 0;                 // accepted
    RankSet ranks{};
  };

  Record read() const;
  void promise(uint64_t ballot);
  void accept(uint64_t ballot, uint64_t attempt, const RankSet& ranks);

  std::atomic<uint64_t> promised;
  std::atomic<uint64_t> accepted;  // ballot << 1 | which of the values
  std::array<Value, 2> values;     // the other one may be half written
};

// Where the ranks of a communicator that has failed agree on who is left: see comm/shrink.cpp. In the segment
// of each rank, written by it alone but for `decision` and `vote`; it stays readable when its owner has died.
struct ShrinkBoard {
  static constexpr uint64_t kNever = UINT64_MAX;

  std::atomic<uint64_t> entered;    // the last round that this rank has entered; kNever: it has left
  std::atomic<uint64_t> published;  // round << 32 | how far this rank is in it
  // In the segment of rank 0: round << 32 | the rank whose proposal counts, plus 1. The first one wins.
  std::atomic<uint64_t> decision;
  uint64_t gave_up;  // proposal: `ranks` did not come in time
  RankSet ranks;     // proposal: the survivors
  HostVote vote;
};

struct SegmentHeader {
  uint64_t magic;
  uint64_t nonce;  // random; also published through the store: reading it here proves a shared mapping
  uint32_t ranks;
  uint32_t owner;        // local rank
  uint64_t block_bytes;  // SegmentLayout's, which the CPU's make decides
  int64_t pid;           // its owner's
  uint64_t nonce_at;     // where that has `nonce`: see peer_memory.h
  uint64_t arena;        // its owner's, by id; 0: none
  uint64_t arena_bytes;
  alignas(128) std::atomic<uint32_t> state;  // RankState; release after `fault`, acquire before it
  FaultRecord fault;
  // Set by peers, here in the segment of the one they tell, after they have changed their own `state`.
  alignas(128) std::atomic<uint32_t> alarm;
  static constexpr uint32_t kStreamFlags = 64;
  // Flag of chunk c, at c % kStreamFlags: the outbox holds what this rank has of it. See stream.h.
  alignas(128) std::array<std::atomic<uint64_t>, kStreamFlags> stream;
  alignas(128) CopyTrial stream_trial;  // of the outbox
  // How often the outboxes have come back from blocks, as far as this rank has come. See stream.cpp.
  alignas(128) std::atomic<uint64_t> returned;
  alignas(128) std::atomic<uint64_t> put;   // Flag: blocks of chunks below the counter are in the slots
  alignas(128) std::atomic<uint64_t> done;  // Flag: chunks below the counter are reduced and returned
  // Flag of chunk c, at c % 2: what this rank has of it is in the slots. See pair_exchange.h.
  alignas(128) std::array<std::atomic<uint64_t>, 2> exchanged;
  // Flag: this rank offers its buffers, at these places in its arena. See mapped_reduce.h.
  alignas(128) std::atomic<uint64_t> offer;
  std::atomic<uint64_t> offered_send;
  std::atomic<uint64_t> offered_recv;
  std::atomic<uint64_t> offered_bytes;  // of each
  // This rank reads and writes its peers' buffers: 1 + the slice of its part; 0: it does not.
  alignas(128) std::atomic<uint32_t> touching;
  alignas(128) std::atomic<uint64_t> entered;  // Flag: the scheduled collective that this rank is in
  alignas(128) ShrinkBoard shrink;
};

// Head and tail of one ring each, in lines of their own. `head` is of the ring to that peer, `tail` is how
// far this rank has read the ring from that peer; `read` and `stream_read` are what it finds of reading that
// and the peer's outbox, on a line that the peer does not read with `tail`: it times how long that takes.
struct RingCursors {
  alignas(128) std::atomic<uint64_t> head;
  LatestRecord latest;  // of that ring
  static_assert(sizeof(head) + sizeof(latest) == 64);
  CopyTrial trial;
  alignas(128) std::atomic<uint64_t> tail;
  alignas(128) ReadCosts read;
  ReadCosts stream_read;
};

// Where things are in a segment of a communicator with `ranks` ranks on this host.
struct SegmentLayout {
  explicit SegmentLayout(uint32_t ranks);

  static constexpr uint32_t kMostRanks = 1024;  // some more, and there is no room for a ring each
  static constexpr size_t kSmallSlotBytes = 4096;
  // Data of a slot: what fits beside its flag in the first line, or else on the lines behind that.
  static constexpr size_t kBesideFlag = 64 - sizeof(uint64_t);
  static constexpr size_t kSmallDataBytes = kSmallSlotBytes - 64;
  // Used in turn: how far a rank may be ahead of another. Who only gives looks for room once in half of them,
  // and each look takes a line from a peer: with 8 slots broadcast of 8 B takes .049 us, with 32 .038 (mean,
  // Zen 5).
  static constexpr uint32_t kSmallSlots = 32;
  // Of two ranks that exchange (see small_exchange.h): up to where the large protocols are no slower.
  static constexpr size_t kExchangeBytes = 32 << 10;
  // Slots begin at different places of a page, in one rank's segment and in its neighbour's: caches and store
  // buffers tell addresses apart by their low 12 bits first.
  static constexpr size_t kSmallStagger = 128;
  static constexpr size_t kSmallDistance = kSmallSlotBytes + kSmallStagger;
  static constexpr size_t small_offset(size_t owner, uint64_t slot) {
    return owner % 2 * kSmallStagger / 2 + slot * kSmallDistance;
  }
  // Slots for as much as a line or half of one holds, without gaps, as many of each: a reader finds the next
  // ones on the line, or fetched ahead of it.
  static constexpr size_t kLineSlot = 64, kHalfLineSlot = 32;
  static constexpr size_t kBesideFlagInHalf = kHalfLineSlot - sizeof(uint64_t);
  static constexpr size_t narrow_offset(size_t owner, uint64_t slot, size_t bytes) {
    return small_offset(owner, kSmallSlots) + kSmallSlots * (bytes - kHalfLineSlot) + slot * bytes;
  }
  static constexpr uint32_t kChunkSlots = 2;   // in turn: as many as chunks may be under way
  static constexpr uint32_t kSwapBuffers = 4;  // of each rank, for each peer: see swap_buffers.h
  // Of these, how many a ring may go on through: see ring.h.
  static constexpr uint32_t kSwapsBehindRing = 3;
  static constexpr size_t kSmallestSwap = 1024;  // bytes
  static constexpr uint32_t kValues = 4;         // that survivors exchange: see comm/shrink.cpp
  static constexpr size_t kValueBytes = 8 + 4096;

  // Like small slots they begin at different places of a page.
  size_t swap_distance() const { return swap_bytes + kSmallStagger; }
  size_t blocks_bytes() const { return kChunkSlots * block_bytes; }  // of one peer
  // Of a ring with the swap buffers that it may go on through.
  size_t long_ring_bytes() const { return ring_bytes + kSwapsBehindRing * swap_distance(); }
  size_t lane_bytes() const { return ring_bytes + kSwapBuffers * swap_distance(); }  // of one peer
  bool blocks_in_outbox() const { return blocks == outbox; }                         // of two ranks

  uint32_t ranks;
  size_t ring_bytes;   // one outgoing ring
  size_t swap_bytes;   // one swap buffer; 0: there is no room for any
  size_t block_bytes;  // one rank's part of a chunk
  size_t cursors;      // offsets
  size_t values;
  size_t small;
  size_t exchange;
  size_t lanes;  // rings, each with swap buffers behind it
  size_t blocks;
  size_t outbox;
  size_t outbox_bytes;
  size_t total;
};

class Segment {
 public:
  // A new segment of this rank, filled with zeros and backed by memory already.
  static Result<std::shared_ptr<Segment>> create(uint32_t ranks, uint32_t owner, uint64_t nonce);
  // A peer's. If the peer is a thread of this process its own mapping is used, so that thread sanitizers
  // see one address. Refuses anything but a sealed memfd of the expected size, owner and nonce.
  static Result<std::shared_ptr<Segment>> attach(UniqueFd fd, uint32_t ranks, uint32_t owner, uint64_t nonce);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }  // once every peer has it
  const SegmentLayout& layout() const { return layout_; }

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  RingCursors& cursors(uint32_t peer) const {
    return reinterpret_cast<RingCursors*>(base_ + layout_.cursors)[peer];
  }
  std::byte* value(uint32_t index) const {
    return base_ + layout_.values + index * SegmentLayout::kValueBytes;
  }
  // One of the kSmallSlots slots: a Flag, then data.
  std::byte* small_slot(uint64_t turn) const {
    return small_ + turn % SegmentLayout::kSmallSlots * SegmentLayout::kSmallDistance;
  }
  // One of as many narrow ones, of kLineSlot or kHalfLineSlot bytes.
  std::byte* narrow_slot(uint64_t turn, size_t bytes) const {
    return base_ + layout_.small +
           SegmentLayout::narrow_offset(owner_ % 2, turn % SegmentLayout::kSmallSlots, bytes);
  }
  // One of the two buffers for what two ranks exchange, kExchangeBytes long.
  std::byte* exchange() const {
    return base_ + layout_.exchange + owner_ % 2 * SegmentLayout::kSmallStagger / 2;
  }
  // The outgoing ring to `peer`.
  std::byte* ring(uint32_t peer) const { return base_ + layout_.lanes + index(peer) * layout_.lane_bytes(); }
  // The first one of those for messages with `peer`; the others are swap_distance() apart.
  std::byte* swap_buffers(uint32_t peer) const { return ring(peer) + layout_.ring_bytes; }
  // The block slots for `peer`, one after another.
  std::byte* blocks(uint32_t peer) const {
    return base_ + layout_.blocks + index(peer) * layout_.blocks_bytes();
  }
  std::byte* outbox(uint64_t position) const {
    return base_ + layout_.outbox + position % layout_.outbox_bytes;
  }

 private:
  Segment(UniqueFd fd, const SegmentLayout& layout, std::byte* base, uint32_t owner)
      : fd_(std::move(fd)),
        layout_(layout),
        base_(base),
        small_(base + layout.small + SegmentLayout::small_offset(owner, 0)),
        owner_(owner) {}

  size_t index(uint32_t peer) const { return peer < owner_ ? peer : peer - 1; }

  UniqueFd fd_;
  SegmentLayout layout_;
  std::byte* base_;
  std::byte* small_;  // the first small slot
  uint32_t owner_;
};

}  // namespace floe
