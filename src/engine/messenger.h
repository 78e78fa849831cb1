// Messages of one communicator: matching, and how a message travels as packets.
//
//   eager   kEager, kMore ..., kept by the receiver if nobody waits for it yet
//   long    kAnnounce -> kReady -> kData ..., straight into the receiver's buffer
//           kAnnounce -> kFetched, where the receiver may read the sender's memory
//           kAnnounce -> kReady -> kDataSwap ..., between two that send each other long ones: each packet is
//           answered with the next one that goes back, in its place
//
// What fits into eight packets is eager: asking first takes two crossings, a tenth of 512 KiB's time. So is,
// where packets queue on a link (Transport::queues()), what fits into the window: the answer to an
// announcement would come behind all that the receiver is sending.
//
// Which of the two ways a long message goes is found by trials. To fetch it is one copy, but the receiver's
// alone. Where messages go one way, two copies at a time through shared memory may be as fast; where they go
// both ways, both ranks copy all the time, and what half as many save they save together. So two ranks that
// exchange go one way together: that of the lower one.
//
// Messages with one tag to one rank end in the order in which they were sent: none is eager while one before
// it is announced, and a long one goes the way of those before it that are under way. Others may overtake.
//
// What nobody waits for yet stays where it has come for a few passes, if that is shared memory: most receives
// are posted soon, and a copy less is needed then.
//
// Memory is bounded: a sender has at most kEagerWindow bytes of eager messages at a receiver that have not
// been taken (kConsumed gives them back); beyond that it announces, and the data waits at the sender.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/copy_in.h"
#include "base/packet.h"
#include "base/status.h"
#include "engine/matcher.h"
#include "shm/way_trial.h"

namespace floe {

class TransferOwner {
 public:
  // What `receive` waits for has come, in one packet, and is at `payload` during the call. By default it is
  // copied, if it is long by `copy_in`.
  virtual void on_message(Transfer& receive, std::span<const std::byte> payload, CopyIn& copy_in);
  // The transfer has ended well; it is not touched any more. One that can't end well fails the whole
  // communicator: see Messenger::problem().
  virtual void on_transfer(Transfer& transfer) = 0;

 protected:
  ~TransferOwner() = default;
};

// What is to be sent or received.
struct Message {
  std::byte* data = nullptr;  // only read if it is a send
  uint64_t bytes = 0;         // of the message; of a receive: room
  uint32_t peer = 0;          // destination or source
  uint64_t tag = 0;
  Descriptor descriptor;  // lane 1: a collective's, compared with the sender's; sizes must be equal
  bool alone = false;     // a send whose caller waits for it, and for nothing else
  bool mutual = false;    // a send whose caller receives as much from there meanwhile
};

// One that is under way. Lives in its owner until on_transfer or Messenger::clear. After on_transfer `bytes`
// is what was received, and `peer` the actual source.
struct Transfer : Message {
  std::vector<uint32_t> sources{};  // of a receive from several: not empty, `peer` is then set by the match
  TransferOwner* owner = nullptr;

  Transfer* next = nullptr;  // these two: the matcher's
  uint64_t order = 0;

  uint64_t id = 0;       // the messenger's
  uint64_t moved = 0;    // bytes
  uint64_t peer_id = 0;  // of a long one: what the peer calls it
  // Of a long one that has been announced: as what its data goes.
  PacketKind data_kind = PacketKind::kData;
  // Of a long receive: whether it is kept past the cache, and when its first packet came, in ticks(); 0: none
  // has.
  bool past_cache = false;
  uint64_t begin = 0;
  // Of a long receive: where the sender has it; what is to know how long it took, or null, and since when.
  uint64_t address = 0;
  WayTrial* fetch_trial = nullptr;
  uint64_t matched = 0;
};

class Messenger {
 public:
  struct Route {
    Transport* transport = nullptr;  // null: this rank
    PeerId peer = 0;
  };

  // `cache_bytes`: this rank's part of the last-level cache, if all messages come through shared memory.
  Messenger(uint64_t comm, uint32_t rank, std::vector<Route> routes, uint64_t cache_bytes = UINT64_MAX);

  void send(Transfer& transfer);
  // The whole of a message that fits into one packet, if nothing is before it; false: nothing was done.
  bool send_at_once(const Message& send);
  void receive(Transfer& transfer);
  // For a caller that waits for one message, and takes it from where it has come: then it is neither posted
  // nor kept. It must be the next packet of its peer, and nothing before it. False: the packet is to go to
  // on_packet(). is_next() is asked before its payload is known.
  bool nothing_is_before() const { return matcher_.empty(); }
  bool is_next(const Message& receive, const PacketHeader& header) const {
    return header.kind == PacketKind::kEager && header.version == PacketHeader::kVersion &&
           header.comm == comm_ && header.source == receive.peer && header.tag == receive.tag &&
           header.descriptor.lane == receive.descriptor.lane && header.bytes <= receive.bytes;
  }
  bool take_at_once(const Message& receive, const PacketHeader& header, std::span<const std::byte> payload);
  // A receive that has not ended goes on in `to`, which is a copy of it but for its owner.
  void move(Transfer& from, Transfer& to);
  // A packet without payload of ours or the group's; goes before all messages.
  void control(uint32_t peer, const PacketHeader& header, std::vector<std::byte> payload = {});

  // Takes a packet of kinds kEager..kConsumed whose source is in range.
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload);

  // See PacketSink. The packet's source is in range.
  bool wants(const PacketHeader& header);
  // Nobody will look again soon: it wants everything, until something comes that is waited for.
  void hurry();

  // Why the communicator can't go on: ranks that disagree, a message longer than its receive, or bytes that
  // no floe sends. OK while there is nothing of the kind.
  const Status& problem() const { return problem_; }
  uint32_t problem_rank() const { return problem_rank_; }

  // Sends what can be sent. Returns how many packets left.
  int pump();

  // Whether packets wait to be sent: any, or control packets.
  bool has_outgoing() const { return !std::ranges::all_of(lanes_, &Lane::empty); }
  bool has_control() const {
    return std::ranges::any_of(lanes_, [](const Lane& lane) { return !lane.control.empty(); });
  }
  bool has_control(uint32_t peer) const { return !lanes_[peer].control.empty(); }

  // Forgets all transfers and queued packets, without telling the owners.
  void clear();

  const Route& route(uint32_t rank) const { return routes_[rank]; }

 private:
  static constexpr uint64_t kEagerWindow = 4 << 20;
  static constexpr uint64_t kEagerPackets = 8;
  // A mutual one that can be fetched is eager up to here. Both ways 1 MiB take as long either way, 1.5 and 2
  // MiB 1.2 and 1.4 times as long if they are eager (Emerald Rapids).
  static constexpr uint64_t kMostMutualEager = 1 << 20;
  // Of one whose packets are answered: 384 and 512 KiB take 1.1 and 1.17 times as long if they are eager.
  static constexpr uint64_t kMostMutualUnanswered = 256 << 10;
  static constexpr uint64_t kSmall = 1024;  // bytes, less than which cost little to keep
  static constexpr uint32_t kPatience = 8;  // passes, which take about as long as a copy of some KiB

  struct Control {
    PacketHeader header;
    std::vector<std::byte> payload;
  };
  // `true`: by fetching. They begin with what was faster on the machines that are known.
  struct FetchTrials {
    WayTrials mutual{kMostMutualEager << 1, true};  // while this rank sends there, too
    WayTrials one_way{kMostMutualEager << 1, false};
  };
  // A caller's, of one tag, that have been announced and have not ended.
  struct LongReceives {
    uint32_t count = 0;
    bool fetched = false;
  };
  struct Lane {
    std::deque<Control> control;
    std::deque<Transfer*> messages;                    // sends, in the order they were posted
    std::deque<Transfer*> streams;                     // long sends whose receiver is ready
    std::vector<Transfer*> fetches;                    // long receives, from the peer's memory, in turn
    std::unordered_map<uint64_t, uint32_t> announced;  // by tag: the caller's sends that have not ended
    uint64_t eager_out = 0;                            // bytes not known to be consumed
    uint64_t eager_in = 0;  // bytes that have come, or begun to, and are not reported as consumed
    uint64_t consumed = 0;  // bytes to report
    // The eager message that has come in part: its receive, or where it is kept until there is one.
    Transfer* arriving = nullptr;
    Unexpected* arriving_kept = nullptr;
    CopyIn copy_in;
    std::unordered_map<uint64_t, LongReceives> receiving;  // by tag
    uint32_t long_out = 0;                                 // long sends that have not ended
    bool may_fetch = true;                                 // that has not failed
    std::unique_ptr<FetchTrials> fetch_trials;             // from the first long message on
    uint32_t swapped_in = 0;                               // long receives under way as kDataSwap
    bool may_begin = false;                                // see stream_packet()
    uint32_t refusals = 0;                                 // since something came that was waited for
    bool empty() const { return control.empty() && messages.empty() && streams.empty() && fetches.empty(); }
  };

  static bool is_callers(const Message& message) { return message.descriptor.lane == 0; }
  PacketHeader header(PacketKind kind) const;
  int pump_lane(uint32_t peer, Lane& lane);
  PacketHeader first_packet(PacketKind kind, const Message& send) const;
  bool is_eager(uint32_t peer, const Lane& lane, const Transfer& send) const;
  static bool may_be_eager(const Lane& lane, const Message& send);  // if it is not too long
  bool send_eagerly(uint32_t peer, Lane& lane, Transfer& send);
  static bool is_long_if_mutual(const Transport& transport, const Lane& lane, uint64_t bytes);
  // Bytes of what comes next of `send`.
  static uint64_t next_part(const Transport& transport, const Transfer& send);
  // Where the next `bytes` of it are. As kDataSwap it goes from its end to its beginning: see shm/movement.h.
  static std::byte* place(const Transfer& transfer, uint64_t bytes) {
    const bool from_end = transfer.data_kind == PacketKind::kDataSwap;
    return transfer.data + (from_end ? transfer.bytes - transfer.moved - bytes : transfer.moved);
  }
  bool send_part(uint32_t peer, PacketHeader& header, Transfer& send);
  void deliver(Transfer& receive, const PacketHeader& header, std::span<const std::byte> payload);
  void on_first(const PacketHeader& header, std::span<const std::byte> payload);
  void on_more(const PacketHeader& header, std::span<const std::byte> payload);
  // With what is sent meanwhile it would push all else out of the cache: both ways to keep it are tried.
  bool is_large(const Transfer& receive) const { return receive.bytes >= cache_bytes_ / 4; }
  // False: a problem.
  bool continues(const Transfer& receive, const PacketHeader& header, std::span<const std::byte> payload);
  void take_part(Transfer& receive, std::span<const std::byte> payload);
  void consumed(uint32_t source, uint64_t bytes);
  // Of long messages, in long_messages.cpp.
  bool announce(uint32_t peer, Lane& lane, Transfer& send);
  static FetchTrials& fetch_trials(Lane& lane);
  void receive_long(Transfer& receive, const PacketHeader& announced);
  bool is_to_be_fetched(Lane& lane, Transfer& receive, const PacketHeader& announced);
  void end_long_receive(Transfer& receive);
  void ready(Transfer& receive);
  Transfer* take_announced(const PacketHeader& answer);  // null: a problem
  void on_ready(const PacketHeader& header);
  bool stream_packet(uint32_t peer, Lane& lane, Transfer& send);
  void on_data(const PacketHeader& header, std::span<const std::byte> payload);
  Transfer* answer(const PacketHeader& header, std::span<const std::byte> payload, Transfer& receive);
  PacketHeader data_header(const Transfer& send) const;  // of its next packet
  int fetch_slice(uint32_t peer, Lane& lane);
  void on_fetched(const PacketHeader& header);
  void end_long_send(Lane& lane, Transfer& send);
  // Announced, or on its way.
  bool sends_long() const {
    return std::ranges::any_of(lanes_, [](const Lane& lane) { return lane.long_out != 0; });
  }
  void set_problem(const PacketHeader& header, Status status);
  void bad_packet(const PacketHeader& header, std::string_view what);

  uint64_t comm_;
  uint32_t rank_;
  std::vector<Route> routes_;
  std::vector<Lane> lanes_;  // by rank
  uint64_t cache_bytes_;
  WayTrials keep_trials_;  // `true`: past the cache
  Matcher matcher_;
  std::unordered_map<uint64_t, Transfer*> announced_;  // sends that wait for kReady or kFetched
  std::unordered_map<uint64_t, Transfer*> receiving_;  // long receives under way
  uint64_t next_id_ = 1;
  Status problem_;
  uint32_t problem_rank_ = 0;
};

}  // namespace floe
