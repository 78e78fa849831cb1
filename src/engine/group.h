// A communicator as the engine sees it: members and how to reach them, operations under way, liveness, and
// the one fault that ends it. Everything here runs under the engine's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "boot/control.h"
#include "engine/collective.h"
#include "engine/crowd.h"
#include "engine/message.h"
#include "engine/messenger.h"
#include "shm/bell.h"
#include "shm/direct.h"
#include "shm/segment.h"
#include "shm/shm_transport.h"

namespace floe {

struct Member {
  enum class State { kAlive, kLeft, kDied };

  std::string who;                   // "rank 3 (host b, pid 812)"
  UniqueFd pidfd;                    // a process on this host; invalid: elsewhere, or a thread of this one
  std::shared_ptr<Segment> segment;  // null: on another host
  std::optional<Bell> bell;          // of a member on this host
  Messenger::Route route;
  uint32_t host = 0;    // the lowest rank that shares memory with it, or its own
  uint64_t engine = 0;  // for GroupConfig::control
  State state = State::kAlive;
  Clock::time_point gone_since{};  // once it is not alive
  std::string how;                 // "died": what follows its name then
  bool certain = false;            // that its process has ended or left; otherwise it is only out of reach
  bool settled = false;            // over fabric: knows that this rank's part has ended, or has ended itself
};

struct GroupConfig {
  std::string name;
  uint64_t key = 0;  // random, the same on all ranks, on every packet
  uint32_t rank = 0;
  uint64_t timeout_ms = 0;
  uint32_t ranks_per_cpu = 1;  // at most, on this host; of more than one, who spins keeps others from running
  bool rings_unfenced = false;  // the same on all its ranks: see Bell::fences_all()
  std::vector<Member> members;
  std::unique_ptr<ShmTransport> shm;   // if any member's route uses it
  std::unique_ptr<DirectPath> direct;  // if all members share memory
  std::shared_ptr<Control> control;    // if they are on several hosts
};

class Group final : public PacketSink {
 public:
  explicit Group(GroupConfig config);

  uint32_t rank() const { return config_.rank; }
  uint32_t size() const { return static_cast<uint32_t>(config_.members.size()); }
  uint64_t key() const { return config_.key; }
  const std::string& name() const { return config_.name; }
  DirectPath* direct() const { return config_.direct.get(); }
  const std::vector<Member>& members() const { return config_.members; }
  const Control* control() const { return config_.control.get(); }
  bool oversubscribed() const { return config_.ranks_per_cpu > 1; }
  // Who shares this rank's CPUs, if it is oversubscribed. It outlives the group.
  void set_crowd(Crowd& crowd) { crowd_ = &crowd; }
  bool rings_unfenced() const { return config_.rings_unfenced; }
  uint64_t timeout_ms() const { return config_.timeout_ms; }
  void set_timeout(uint64_t ms) { config_.timeout_ms = ms; }

  // OK, or why every operation fails from now on.
  const Status& fault() const { return fault_; }

  // Puts the operation behind its predecessors and does what can be done at once. The fault if there is one.
  Status start(std::shared_ptr<Collective> collective);
  // For a caller that would wait: runs a direct collective right here while its peers are about to arrive,
  // which costs no allocation and no look at the clock. *late is the operation, started, if they were not.
  Status run(const Descriptor& descriptor, DirectOperation& op, std::shared_ptr<Collective>* late);
  // The same, split up, for a caller that does the work of one that is small itself: if it may_run_at_once(),
  // begin_small(), and then either end_small(), or continue_small() if its peers were late.
  bool may_run_at_once() {
    check_alarm();
    return collectives_.empty() && fault_.ok() && !peer_fault_ && !disagrees_;
  }
  void begin_small(const Descriptor& descriptor) { remember(descriptor); }
  void end_small() {
    published_ = true;
    ++completed_;
    wake_peers();
  }
  // Null: it has ended.
  std::shared_ptr<Collective> continue_small(const Descriptor& descriptor, SmallExchange op);
  Status start(std::shared_ptr<MessageOperation> message);
  // For a caller that would wait: sends a message that goes into one packet, if there is room for it now;
  // false: start() it. The caller wakes peers.
  bool send_at_once(const Message& send);
  // The same for a message that a peer is about to send: the receive's, or if there are `sources` one of
  // theirs. *late is the operation, started, if it was not.
  Status receive(const Message& receive, std::span<const uint32_t> sources,
                 std::shared_ptr<MessageOperation>* late);

  bool busy() const { return !collectives_.empty() || !messages_.empty(); }
  // Operations that ended well, and with an error.
  uint64_t completed() const { return completed_; }
  uint64_t failed() const { return failed_; }
  // One pass over everything under way. Returns how much moved: 0 when idle.
  int progress();
  // Before the last look for work: what is not wanted yet is taken then.
  void hurry() { messenger_.hurry(); }
  // Until there is something to do that no event tells of; Millis::max() if there is nothing.
  Millis longest_sleep() const;
  // Takes note of members on other hosts whose end has become known.
  void hear_of_ends();
  // What need not be done on every pass: liveness, peers' faults, deadlines, probes.
  void check();
  // Whether all ranks that the first operation waits for run on other CPUs, as it seems, where ranks share
  // them: what they do comes sooner than another rank has had this one.
  bool awaits_runners() const;
  // Wakes peers that sleep, if anything was published for them since the last call.
  void wake_peers();

  // Ends all operations, here and on all members. `culprit` is the rank whose doing it is.
  void fail(const Status& why, uint32_t culprit);
  void out_of_memory() {
    fail(error(FLOE_ERR_SYSTEM, "{} is out of memory", config_.members[rank()].who), rank());
  }
  // This rank leaves: operations under way end with FLOE_ERR_ABORTED, peers are told.
  void leave();
  // Whether packets for other hosts wait to be sent.
  bool has_outgoing();
  // Whether nobody needs this rank any more, which has left or failed: its endpoint may go.
  bool settled() const;

  // group_mail.cpp: letters, which pass also when the communicator has failed. Of each peer's only the latest
  // in each slot is kept.
  struct Letter {
    static constexpr size_t kSlots = 8, kMostBytes = 8192;
    uint64_t id = 0;
    std::string text;
    bool fresh = false;  // nobody has taken it
  };
  Letter& letter(uint32_t peer, size_t slot);
  void post(uint32_t peer, size_t slot, uint64_t id, std::string_view text);
  // Whether something that was posted to this rank has not left yet.
  bool has_mail_for(uint32_t peer) const { return messenger_.has_control(peer); }
  // Sends and takes letters; what else arrives is dropped. Returns how much moved.
  int progress_mail();

  // All, once a member has gone or failed: what it sent before that still counts, if it has come.
  bool wants(const PacketHeader& header) override {
    const bool well = all_alive_ && !peer_fault_ && fault_.ok();
    return !well || header.comm != config_.key || header.source >= size() || messenger_.wants(header);
  }
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override;
  void on_peer_lost(PeerId local_rank, const Status& why) override;  // from shared memory
  void lost(uint32_t rank, const Status& why);

 private:
  // A fault may be ahead of what others, or its finder by another way, sent over fabric before it.
  static constexpr Millis kFaultAhead{50};
  struct PeerFault {
    Status why;
    uint32_t culprit;
    Clock::time_point adopt;  // not before
  };
  struct Note {  // what a peer's collective of that number is
    uint64_t sequence = 0;
    Descriptor descriptor;
  };

  int step_collectives();
  int reap_messages();
  void check_alarm() {
    if (alarm_ && alarm_->load(std::memory_order_relaxed) != 0) [[unlikely]]
      take_alarm();
  }
  void take_alarm();
  // Why no operation may start any more, or OK.
  Status refusal(const Descriptor& descriptor);
  template <class Protocol>
  bool run_at_once(Protocol& op);
  bool give_way();
  int looks_at_runners() const;
  int looks_at_sender(const Message& message, bool one_of_several) const;
  class Taker;
  template <class Look, class Done>
  void look_for(const Message& receive, bool from_several, Look&& look, Done&& done);
  Status receive_posted(Transfer receive, std::shared_ptr<MessageOperation>* late);
  Status message_ended();
  template <class F>
  bool all_run_elsewhere(F&& waits_for) const;
  void remember(const Descriptor& descriptor) {
    ++collective_sequence_;
    recent_[collective_sequence_ % recent_.size()] = {collective_sequence_, descriptor};
  }
  void enqueue(std::shared_ptr<Collective> collective);
  Transfer& take_up(std::shared_ptr<MessageOperation> message);
  void check_members();
  void set_left(Member& member);
  void set_dead(Member& member, std::string how, bool certain);
  bool over_fabric(const Member& member) const;
  void check_waiting_for_gone();
  void check_time();
  void probe(Operation& operation);
  void tell_history();
  void tell(uint64_t sequence, const Descriptor& descriptor);
  void compare_notes(uint64_t sequence);
  void compare(uint32_t other, const Note& theirs);
  void note(uint32_t source, uint64_t sequence, const Descriptor& descriptor);
  void keep_letter(const PacketHeader& header, std::span<const std::byte> payload);
  void on_end_packet(const PacketHeader& header);
  void on_fault_packet(const PacketHeader& header, std::span<const std::byte> payload);
  // What `peer` has published in its segment; what it says has ended the communicator, whatever that is.
  void take_fault(uint32_t peer);
  void hear_fault(uint32_t peer, uint64_t code, uint64_t culprit, std::string_view text, Millis ahead);
  // The end: tells the members, and ends all operations once nobody uses their buffers any more.
  void end(RankState state, uint32_t culprit, const Status& told, const Status& why);
  void publish_state(RankState state, uint32_t culprit, const Status& told);
  void send_state(RankState state, uint32_t culprit, const Status& told);
  void end_peers_writes();
  void fence(uint32_t peer);
  void end_all(const Status& why);
  std::string waiting_for(const Operation& operation) const;
  template <class F>
  void for_each_operation(F&& f) const;

  GroupConfig config_;
  Messenger messenger_;
  std::vector<uint32_t> locals_;            // ranks, by PeerId of config_.shm
  std::atomic<uint32_t>* alarm_ = nullptr;  // of this rank's segment, if it has one
  Crowd* crowd_ = nullptr;
  std::deque<std::shared_ptr<Collective>> collectives_;  // only the first one runs
  std::vector<std::shared_ptr<MessageOperation>> messages_;
  EndedMessages ended_messages_;  // some of them
  // Collectives by number, modulo the length. This rank's last ones: one that ended early, as a broadcast's
  // root does, may turn out to differ from a peer's later. Peers' latest ones, by rank, empty before the
  // first is known: peers may be some calls ahead.
  using History = std::array<Note, 64>;
  History recent_;
  std::vector<History> notes_;
  std::vector<std::array<Letter, Letter::kSlots>> mail_;  // by rank, empty before the first
  uint64_t collective_sequence_ = 0;
  uint64_t message_sequence_ = 0;
  uint64_t completed_ = 0;
  uint64_t failed_ = 0;
  // A fault that a peer has published: adopted once nothing moves any more, since what the peer did before
  // it failed still counts.
  std::optional<PeerFault> peer_fault_;
  bool all_alive_ = true;              // no member's state is another one
  std::optional<uint32_t> disagrees_;  // a rank whose flag shows another collective
  Status fault_;
  uint64_t ends_heard_ = 0;
  bool published_ = false;  // something that peers may sleep for
};

}  // namespace floe
