// The packet: what ranks say to each other, over shared memory and over fabric alike, and the interface
// of a way to carry it. Matching of messages is the engine's; a transport only moves packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace floe {

enum class PacketKind : uint8_t {
  kEager = 1,  // a message of `bytes`; payload: all of it, or the first part
  kMore,       // payload: the next part of the eager message that came last, from `offset` on
  kAnnounce,   // a message that is too long to be eager: `bytes`, sender's id in `id`; `offset`: its address,
               // if the receiver may fetch it from there
  kReady,  // receiver to sender: `id` is the announced one, data may flow to `offset`; bytes: as which kind
  kData,   // payload: bytes [offset, offset + payload) of the message received as `id`
  kDataPast,  // the same, which the receiver keeps past its cache while it sends no long message
  kDataSwap,  // the same, between two that send each other long ones: see Transport::answer_place(); in bytes
              // from the message's end
  kFetched,   // receiver to sender: the announced message `id` has been fetched from the sender's memory
  kConsumed,  // `bytes` of eager messages have been taken from the unexpected queue
  kProbe,     // what this rank's current collective is, sent when it waits long; payload: none
  kFault,     // the communicator has failed; tag: the culprit's rank, id: floe_status_t, payload: a text
  kLeave,     // the sender leaves: it has sent all that it ever will
  kEndAck,    // answers kLeave and kFault: what came before has arrived
  kMail,      // a letter between ranks that shrink; tag: its slot, id: as its sender likes; payload: its text
};

// What a collective was called with: equal on all ranks, or the call is an error. Two registers: passed by
// value where small operations pass.
struct Descriptor {
  uint8_t kind = 0;  // CollectiveKind
  uint8_t op = 0;    // floe_op_t
  uint8_t type = 0;  // floe_type_t
  uint8_t lane = 0;  // 0: the caller's point-to-point message, 1: a collective's
  uint32_t root = 0;
  uint64_t count = 0;

  bool operator==(const Descriptor&) const = default;
};

// Fixed little-endian wire form. Every field is checked by its receiver before it is used.
struct PacketHeader {
  PacketKind kind{};
  uint8_t version = kVersion;
  uint16_t fetches = 0;  // kAnnounce: 1 if the sender would fetch such a message from its receiver, too
  uint32_t source = 0;   // sender's rank in the communicator
  uint64_t comm = 0;     // the communicator's random key
  uint64_t tag = 0;
  uint64_t bytes = 0;     // of the whole message
  Descriptor descriptor;  // of the collective; all 0 of a caller's message
  uint64_t id = 0;
  uint64_t offset = 0;  // kMore, kData: offset; kReady: the receiver's id; kAnnounce: an address

  static constexpr uint8_t kVersion = 1;
};
static_assert(sizeof(PacketHeader) == 64);

// A peer as one transport knows it.
using PeerId = uint32_t;

// Receives what a transport's progress() finds. Called on the thread that progresses.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  // `payload` is valid during the call only. The header is a copy; nothing in it has been checked but
  // the version.
  virtual void on_packet(const PacketHeader& header, std::span<const std::byte> payload) = 0;
  // Asked before a packet is handed over. False: it may stay with its transport for now, which is cheaper
  // than to keep it elsewhere.
  virtual bool wants(const PacketHeader&) { return true; }
  // Nothing more will arrive from or reach this peer.
  virtual void on_peer_lost(PeerId peer, const Status& why) = 0;
};

// A way to reach peers: reliable, in order for each peer, bounded in memory on both sides. One thread at
// a time calls it (the engine's progress lock).
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "shm", "fabric tcp"
  virtual size_t max_payload() const = 0;     // bytes of payload in one packet
  // Whether packets wait behind others on a link, so that a question and its answer may take long.
  virtual bool queues() const { return false; }

  // Takes a copy of the packet, or returns false when there is no room for it now: try again after
  // progress(). A packet to a lost peer is dropped.
  virtual bool try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) = 0;

  // The same for a packet whose receiver probably waits for nothing else: a kEager or kMore one may arrive in
  // parts, those behind the first as kMore.
  virtual bool try_send_in_parts(PeerId peer, const PacketHeader& header,
                                 std::span<const std::byte> payload) {
    return try_send(peer, header, payload);
  }

  // Whether a packet of kind kDataSwap and up to this many bytes may be answered in the memory that it came
  // in, in one pass with reading it; 0: never.
  virtual size_t most_answered() const { return 0; }
  // Asked by who is being handed such a packet: where its payload is, if that is this rank's to write, and
  // there is room for an answer. Else empty.
  virtual std::span<std::byte> answer_place(PeerId /*peer*/) { return {}; }
  // Sends that packet, whose payload is at the beginning of answer_place(), once the payload that was there
  // has been read.
  virtual void answer(PeerId /*peer*/, const PacketHeader& /*header*/, size_t /*payload*/) {}

  // Whether peers may read this rank's memory, by fetch().
  virtual bool gives_memory() const { return false; }
  // Copies what is at `address` of that peer's memory. An error: that can't be read, or the peer's part has
  // ended meanwhile, and `to` holds anything.
  virtual Status fetch(PeerId /*peer*/, uint64_t /*address*/, std::span<std::byte> /*to*/) {
    return error(FLOE_ERR_UNSUPPORTED, "{} reads no memory of peers", name());
  }

  // Moves data and hands arrived packets to `sink`. Returns how many events it handled: 0 when idle.
  virtual int progress(PacketSink& sink) = 0;

  // Before sleeping: a descriptor that becomes readable when progress() has something to do, or -1 if
  // there is none (the engine then sleeps at most `poll_interval_ms`).
  virtual int wait_fd() { return -1; }
  // False when something arrived meanwhile and the caller must progress() instead of sleeping.
  virtual bool prepare_wait() { return true; }
};

}  // namespace floe
