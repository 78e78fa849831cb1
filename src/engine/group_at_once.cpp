// What a caller that would wait runs right here, while its peers are about to arrive.
#include <memory>
#include <new>

#include "base/pause.h"
#include "engine/group.h"

namespace floe {
namespace {

// Long enough for a peer that is some cache misses behind, short enough to hold the engine's lock for. Where
// ranks share a CPU the peer may need this very one: see give_way(). For a message more often, as the ranks
// it goes round have one after another something to do: where 4 share a CPU two in three have not when it is
// their turn, and a pass of the engine for an operation of its own takes them a fifth of the switch
// (sendrecv of 8 B by 8 ranks on 2 CPUs 3.7 -> 3.3 us).
constexpr int kPolls = 400, kPollsOversubscribed = 2, kPollsOfMessageOversubscribed = 8;
// Looking for sleepers may have a fence in it, which waits until what was published has left this core. A
// peer that published before it slept is found without: the look comes last then.
constexpr int kPollsBeforeWaking = 16;
// A receive's: what is behind its message a later call takes out of the ring.
constexpr int kOnePacket = 1;
// Longer messages may come in parts, of which the first would be kept.
constexpr uint64_t kMostTaken = 8 << 10;

bool runs_elsewhere(const Member& member) { return member.bell && Crowd::runs_elsewhere(member.bell->cpu()); }

}  // namespace

// Where ranks share CPUs, before another look: an operation of its own, for the engine to wait for, costs
// more than a fifth of the time of a switch to the peer and back. Not often, as the engine's lock is held
// meanwhile.
bool Group::give_way() {
  if (!crowd_) return false;
  wake_peers();
  Clock::time_point yielded{};
  if (!crowd_->yield(&yielded)) return false;
  crowd_->leave();
  return true;
}

// How often to look for what ranks do that run on other CPUs before this one is given up: 4 ranks on 2 CPUs,
// a CPU for each pair, take 2.6 us for sendrecv of 8 B, not 3.2, and 11 us for the slowest in a hundred,
// not 20. Where more share a CPU nothing is gained: one of them has something to do meanwhile.
int Group::looks_at_runners() const {
  // A look takes a line from each rank that is waited for.
  constexpr uint32_t kMostRanksPerCpu = 2, kMostRanks = 16;
  const bool few = config_.ranks_per_cpu <= kMostRanksPerCpu && size() <= kMostRanks;
  return oversubscribed() && few ? Crowd::kLooks : 0;
}

// Longer ones keep their sender busy for longer than that.
int Group::looks_at_sender(const Message& message, bool one_of_several) const {
  constexpr uint64_t kMostBytes = 4096;
  return !one_of_several && message.bytes <= kMostBytes ? looks_at_runners() : 0;
}

// Whether there are ranks that are waited for, and all of them do, as it seems.
template <class F>
bool Group::all_run_elsewhere(F&& waits_for) const {
  bool some = false;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank() || !waits_for(peer)) continue;
    if (!runs_elsewhere(config_.members[peer])) return false;
    some = true;
  }
  return some;
}

bool Group::awaits_runners() const {
  const auto all_run = [this](const Operation& operation) {
    return all_run_elsewhere([&](uint32_t peer) { return operation.waits_for(peer); });
  };
  if (!collectives_.empty()) return looks_at_runners() > 0 && all_run(*collectives_.front());
  if (messages_.empty()) return false;
  const MessageOperation& message = *messages_.front();
  return looks_at_sender(message.transfer(), message.from_several()) > 0 && all_run(message);
}

template <class Protocol>
bool Group::run_at_once(Protocol& op) {
  const int polls = oversubscribed() ? kPollsOversubscribed : kPolls;
  int looks = looks_at_runners();
  for (int turn = 0; turn < polls; ++turn) {
    if (turn == 1 && looks > 0 && all_run_elsewhere([&](uint32_t peer) { return op.waits_for(peer); })) {
      --looks;
      turn = 0;
      pause_cpu();
    } else if (turn == 1 && oversubscribed() && !give_way()) {
      return false;
    }
    const Poll poll = op.poll();
    if (poll == Poll::kMismatch || poll == Poll::kInvalid) return false;
    if (poll != Poll::kPending) published_ = true;
    if (poll == Poll::kDone || turn == kPollsBeforeWaking) wake_peers();
    if (poll == Poll::kDone) {
      ++completed_;
      return true;
    }
    // A pause is as long as a cache miss: not while the peer's flag may be on its way.
    if (poll == Poll::kPending && turn > kPollsBeforeWaking) pause_cpu();
  }
  return false;
}

Status Group::run(const Descriptor& descriptor, DirectOperation& op, std::shared_ptr<Collective>* late) {
  if (!may_run_at_once()) {
    *late = std::make_shared<DirectCollective>(descriptor, op);
    return start(*late);
  }
  remember(descriptor);
  if (op.visit([this](auto& protocol) { return run_at_once(protocol); })) return {};
  *late = std::make_shared<DirectCollective>(descriptor, op);
  enqueue(*late);
  return {};
}

std::shared_ptr<Collective> Group::continue_small(const Descriptor& descriptor, SmallExchange op) {
  published_ = true;
  if (run_at_once(op)) return nullptr;
  auto late =
      std::make_shared<DirectCollective>(descriptor, DirectOperation(std::in_place_type<SmallExchange>, op));
  enqueue(late);
  return late;
}

// Takes the message that a caller waits for right where it has come. Whatever else has come stays there.
class Group::Taker final : public PacketSink {
 public:
  Taker(Group& group, const Message& receive) : group_(group), receive_(receive) {}

  bool wants(const PacketHeader& header) override {
    others = !group_.messenger_.is_next(receive_, header);
    return !others;
  }
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override {
    taken = group_.messenger_.take_at_once(receive_, header, payload);
    if (taken) return;
    others = true;
    group_.on_packet(header, payload);
  }
  void on_peer_lost(PeerId peer, const Status& why) override {
    others = true;
    group_.on_peer_lost(peer, why);
  }

  bool taken = false;
  bool others = false;  // something else is to be done

 private:
  Group& group_;
  const Message& receive_;
};

// Looks for packets until `done`, or until there have been none for too long.
template <class Look, class Done>
void Group::look_for(const Message& receive, bool from_several, Look&& look, Done&& done) {
  const Member& source = config_.members[receive.peer];
  const int polls = oversubscribed() ? kPollsOfMessageOversubscribed : kPolls;
  int looks = looks_at_sender(receive, from_several);
  bool idle = false;
  for (int turn = 0; !done() && turn < polls; ++turn) {
    if (idle && looks > 0 && runs_elsewhere(source)) {
      --looks;
      --turn;
      pause_cpu();
    } else if (idle && oversubscribed()) {
      if (!give_way()) break;
      looks = looks_at_sender(receive, from_several);
    }
    idle = look() == 0;
    if (turn == kPollsBeforeWaking) wake_peers();
    if (idle && turn > kPollsBeforeWaking) pause_cpu();
  }
}

Status Group::receive(const Message& receive, std::span<const uint32_t> sources,
                      std::shared_ptr<MessageOperation>* late) {
  const Member& source = config_.members[receive.peer];
  const bool from_several = !sources.empty(), near = from_several || source.segment;
  const auto start_late = [&] {
    *late = std::make_shared<MessageOperation>(receive.descriptor,
                                               Transfer{receive, {sources.begin(), sources.end()}});
    return start(*late);
  };
  check_alarm();
  if (!fault_.ok() || peer_fault_ || busy() || !config_.shm || !near) return start_late();
  if (!from_several && receive.bytes <= kMostTaken && messenger_.nothing_is_before()) {
    Taker taker(*this, receive);
    const auto look = [&] { return config_.shm->drain(source.route.peer, taker, kOnePacket); };
    look_for(receive, from_several, look, [&] { return taker.taken || taker.others; });
    if (taker.taken) return message_ended();
    if (!taker.others || !fault_.ok()) return start_late();
  }
  return receive_posted({receive, {sources.begin(), sources.end()}}, late);
}

Status Group::receive_posted(Transfer receive, std::shared_ptr<MessageOperation>* late) {
  struct : TransferOwner {
    void on_transfer(Transfer&) override { ended = true; }
    bool ended = false;
  } owner;
  receive.owner = &owner;
  try {
    messenger_.receive(receive);
    const bool from_several = !receive.sources.empty();
    const PeerId source = config_.members[receive.peer].route.peer;
    ShmTransport& shm = *config_.shm;
    const auto look = [&] {
      return from_several ? shm.progress(*this) : shm.drain(source, *this, kOnePacket);
    };
    look_for(receive, from_several, look, [&] { return owner.ended; });
    if (owner.ended) return message_ended();
    if (!fault_.ok()) return refusal(receive.descriptor);
    *late = std::make_shared<MessageOperation>(receive.descriptor, receive);
    messenger_.move(receive, take_up(*late));
    return {};
  } catch (const std::bad_alloc&) {
    out_of_memory();  // here: until then `receive` may be written to
    throw;
  }
}

Status Group::message_ended() {
  ++message_sequence_;
  ++completed_;
  wake_peers();
  return {};
}

bool Group::send_at_once(const Message& send) {
  check_alarm();
  if (!fault_.ok() || peer_fault_ || !messenger_.send_at_once(send)) return false;
  ++message_sequence_;
  ++completed_;
  return true;
}

}  // namespace floe
