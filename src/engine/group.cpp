#include "engine/group.h"

#include <algorithm>
#include <new>

#include "base/log.h"
#include "base/pause.h"

namespace floe {
namespace {

// Long enough for a peer that is some cache misses behind, short enough to hold the engine's lock for. Where
// ranks share a CPU the peer may need this very one: see give_way().
constexpr int kPolls = 400, kPollsOversubscribed = 2;
// Looking for sleepers may have a fence in it, which waits until what was published has left this core. A
// peer that published before it slept is found without: the look comes last then.
constexpr int kPollsBeforeWaking = 16;

std::vector<Messenger::Route> routes(const std::vector<Member>& members) {
  std::vector<Messenger::Route> result;
  result.reserve(members.size());
  for (const Member& member : members) result.push_back(member.route);
  return result;
}

bool runs_elsewhere(const Member& member) { return member.bell && Crowd::runs_elsewhere(member.bell->cpu()); }

}  // namespace

Group::Group(GroupConfig config)
    : config_(std::move(config)),
      messenger_(config_.key, config_.rank, routes(config_.members),
                 config_.direct ? config_.direct->cache_bytes() : UINT64_MAX) {
  const auto& own = config_.members[config_.rank].segment;
  if (own) alarm_ = &own->header().alarm;
  for (uint32_t rank = 0; config_.shm && rank < size(); ++rank)
    if (config_.members[rank].segment) locals_.push_back(rank);
}

// ---- Operations -----------------------------------------------------------------------------------------

Status Group::start(std::shared_ptr<Collective> collective) {
  FLOE_TRY(refusal(collective->descriptor()));
  remember(collective->descriptor());
  enqueue(std::move(collective));
  return {};
}

void Group::enqueue(std::shared_ptr<Collective> collective) {
  collective->started(collective_sequence_, config_.name, config_.timeout_ms);
  collectives_.push_back(std::move(collective));
  compare_notes(collective_sequence_);
  if (fault_.ok() && collectives_.size() == 1) step_collectives();
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

// Where ranks share CPUs, before the second look: an operation of its own, for the engine to wait for, costs
// more than a fifth of the time of a switch to the peer and back. Once, as the engine's lock is held
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
  constexpr uint32_t kMostRanksPerCpu = 2;
  return oversubscribed() && config_.ranks_per_cpu <= kMostRanksPerCpu ? Crowd::kLooks : 0;
}

// Longer ones keep their sender busy for longer than that.
int Group::looks_at_sender(const Transfer& message) const {
  constexpr uint64_t kMostBytes = 4096;
  return message.sources.empty() && message.bytes <= kMostBytes ? looks_at_runners() : 0;
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
  return looks_at_sender(messages_.front()->transfer()) > 0 && all_run(*messages_.front());
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

Status Group::start(std::shared_ptr<MessageOperation> message) {
  FLOE_TRY(refusal(message->descriptor()));
  const bool is_send = static_cast<Kind>(message->descriptor().kind) == Kind::kSend;
  Transfer& transfer = take_up(std::move(message));
  if (is_send)
    messenger_.send(transfer);
  else
    messenger_.receive(transfer);
  reap_messages();
  return {};
}

Transfer& Group::take_up(std::shared_ptr<MessageOperation> message) {
  message->started(++message_sequence_, config_.name, config_.timeout_ms);
  message->started_at(messages_.size(), ended_messages_);
  return messages_.emplace_back(std::move(message))->transfer();
}

Status Group::receive(Transfer& receive, std::shared_ptr<MessageOperation>* late) {
  const auto operation = [&] { return std::make_shared<MessageOperation>(receive.descriptor, receive); };
  const Member& source = config_.members[receive.peer];
  const bool from_several = !receive.sources.empty(), near = from_several || source.segment;
  check_alarm();
  if (!fault_.ok() || peer_fault_ || busy() || !config_.shm || !near) return start(*late = operation());
  struct : TransferOwner {
    void on_transfer(Transfer&) override { ended = true; }
    bool ended = false;
  } owner;
  receive.owner = &owner;
  try {
    messenger_.receive(receive);
    ShmTransport& shm = *config_.shm;
    const int polls = oversubscribed() ? kPollsOversubscribed : kPolls;
    int looks = looks_at_sender(receive);
    for (int turn = 0; !owner.ended && turn < polls; ++turn) {
      if (turn == 1 && looks > 0 && runs_elsewhere(source)) {
        --looks;
        turn = 0;
        pause_cpu();
      } else if (turn == 1 && oversubscribed() && !give_way()) {
        break;
      }
      const int packets = from_several ? shm.progress(*this) : shm.drain(source.route.peer, *this);
      if (packets == 0 && turn > kPollsBeforeWaking) pause_cpu();
    }
    if (owner.ended) {
      ++message_sequence_;
      ++completed_;
      wake_peers();
      return {};
    }
    if (!fault_.ok()) return refusal(receive.descriptor);
    *late = operation();
    messenger_.move(receive, take_up(*late));
    return {};
  } catch (const std::bad_alloc&) {
    out_of_memory();  // here: until then `receive` may be written to
    throw;
  }
}

bool Group::send_at_once(Transfer& send) {
  check_alarm();
  if (!fault_.ok() || peer_fault_ || !messenger_.send_at_once(send)) return false;
  ++message_sequence_;
  ++completed_;
  wake_peers();
  return true;
}

int Group::step_collectives() {
  int moved = 0;
  while (!collectives_.empty()) {
    const std::shared_ptr<Collective> front = collectives_.front();
    const Poll poll = front->step(messenger_);
    if (!messenger_.problem().ok()) {
      fail(messenger_.problem(), messenger_.problem_rank());
      return moved + 1;
    }
    if (poll == Poll::kInvalid) {
      const uint32_t culprit = front->mismatch_with();
      fail(culprit == rank() ? error(FLOE_ERR_PEER,
                                     "the buffer is in pages that a stopped rank of another communicator had")
                             : error(FLOE_ERR_INTERNAL, "{} offered memory beyond what it shares",
                                     config_.members[culprit].who),
           culprit);
      return moved + 1;
    }
    if (poll == Poll::kMismatch && !disagrees_) check_members();
    if (poll == Poll::kMismatch && !disagrees_ && !peer_fault_) {
      disagrees_ = front->mismatch_with();
      front->probed = true;
      tell_history();
      compare_notes(front->sequence());
    }
    if (poll != Poll::kMoved && poll != Poll::kDone) break;
    published_ = true;
    ++moved;
    if (poll != Poll::kDone) break;
    collectives_.pop_front();
    ++completed_;
    front->finish(Status());
  }
  return moved;
}

int Group::reap_messages() {
  int ended = 0;
  for (MessageOperation* next = ended_messages_.take(); next; next = ended_messages_.take()) {
    const size_t place = next->place();
    const std::shared_ptr<MessageOperation> message = std::move(messages_[place]);
    if (place + 1 != messages_.size()) {
      messages_[place] = std::move(messages_.back());
      messages_[place]->move_to(place);
    }
    messages_.pop_back();
    ++completed_;
    message->finish(Status());
    ++ended;
  }
  return ended;
}

int Group::progress() {
  check_alarm();
  if (!fault_.ok()) return 0;
  int moved = config_.shm ? config_.shm->progress(*this) : 0;
  if (!messenger_.problem().ok()) fail(messenger_.problem(), messenger_.problem_rank());
  if (!fault_.ok()) return 1;
  moved += messenger_.pump();
  moved += reap_messages();
  moved += step_collectives();
  if (moved == 0 && peer_fault_ && fault_.ok() && Clock::now() >= peer_fault_->adopt)
    fail(peer_fault_->why, peer_fault_->culprit);
  return moved;
}

Status Group::refusal(const Descriptor& descriptor) {
  check_alarm();
  if (peer_fault_ && fault_.ok() && !busy()) fail(peer_fault_->why, peer_fault_->culprit);
  if (!fault_.ok()) return fault_.in(describe(descriptor));
  if (peer_fault_) return peer_fault_->why.in(describe(descriptor));
  return {};
}

void Group::wake_peers() {
  const auto packets_to = config_.shm ? config_.shm->published() : std::span<const PeerId>();
  if (packets_to.empty() && !published_) return;
  // Dekker: what was published comes before the look at `sleeping`; pairs with Bell::begin_sleep.
  if (config_.rings_unfenced)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  if (std::exchange(published_, false)) {
    for (const Member& member : config_.members)
      if (member.bell) member.bell->ring_if_sleeping();
  } else {
    for (const PeerId peer : packets_to)
      if (const auto& bell = config_.members[locals_[peer]].bell) bell->ring_if_sleeping();
  }
  if (!packets_to.empty()) config_.shm->forget_published();
}

bool Group::has_outgoing() {
  messenger_.pump();
  return messenger_.has_control();
}

// ---- Packets --------------------------------------------------------------------------------------------

void Group::on_packet(const PacketHeader& header, std::span<const std::byte> payload) {
  if (header.comm != config_.key) return;
  if (header.version != PacketHeader::kVersion || header.source >= size() || header.source == rank()) {
    log(LogLevel::kWarn, "dropped a packet on '{}' with version {} from rank {}", config_.name,
        header.version, header.source);
    return;
  }
  switch (header.kind) {  // when this rank has failed, too
    case PacketKind::kMail: return keep_letter(header, payload);
    case PacketKind::kLeave:
    case PacketKind::kEndAck: return on_end_packet(header);
    case PacketKind::kFault: on_end_packet(header); break;
    default: break;
  }
  if (!fault_.ok()) return;
  switch (header.kind) {
    case PacketKind::kProbe: note(header.source, header.tag, header.descriptor); return;
    case PacketKind::kFault: on_fault_packet(header, payload); return;
    case PacketKind::kEager:
    case PacketKind::kAnnounce:
      if (header.descriptor.lane != 0) note(header.source, header.tag >> 16, header.descriptor);
      if (!fault_.ok()) return;
      [[fallthrough]];
    default: messenger_.on_packet(header, payload);
  }
}

void Group::note(uint32_t source, uint64_t sequence, const Descriptor& descriptor) {
  if (notes_.empty()) notes_.resize(size());
  Note& theirs = notes_[source][sequence % recent_.size()];
  if (sequence < theirs.sequence) return;
  theirs = {sequence, descriptor};
  compare(source, theirs);
}

void Group::compare(uint32_t other, const Note& theirs) {
  const Note& mine = recent_[theirs.sequence % recent_.size()];
  if (mine.sequence != theirs.sequence || mine.descriptor == theirs.descriptor) return;
  fail(mismatch(other, theirs.descriptor, rank(), mine.descriptor), other);
}

void Group::compare_notes(uint64_t sequence) {
  for (uint32_t other = 0; other < notes_.size() && fault_.ok(); ++other) {
    const Note& theirs = notes_[other][sequence % recent_.size()];
    if (theirs.sequence == sequence) compare(other, theirs);
  }
}

void Group::probe(Operation& operation) {
  operation.probed = true;
  tell(operation.sequence(), operation.descriptor());
  wake_peers();
}

// The calls up to the one that shows that some differ: it may have been an earlier one.
void Group::tell_history() {
  const uint64_t length = recent_.size();
  for (uint64_t age = std::min(length, collective_sequence_); age-- > 0;) {
    const Note& mine = recent_[(collective_sequence_ - age) % length];
    tell(mine.sequence, mine.descriptor);
  }
  wake_peers();
}

void Group::tell(uint64_t sequence, const Descriptor& descriptor) {
  PacketHeader header;
  header.kind = PacketKind::kProbe;
  header.tag = sequence;
  header.descriptor = descriptor;
  for (uint32_t peer = 0; peer < size(); ++peer)
    if (peer != rank()) messenger_.control(peer, header);
}

void Group::on_fault_packet(const PacketHeader& header, std::span<const std::byte> payload) {
  constexpr size_t kMostText = 1024;
  hear_fault(header.source, header.id, header.tag,
             {reinterpret_cast<const char*>(payload.data()), std::min(payload.size(), kMostText)},
             kFaultAhead);
}

void Group::on_peer_lost(PeerId local_rank, const Status& why) {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const Messenger::Route& route = config_.members[peer].route;
    if (route.transport == config_.shm.get() && route.peer == local_rank) lost(peer, why);
  }
}

void Group::lost(uint32_t peer, const Status& why) {
  Member& member = config_.members[peer];
  if (member.state != Member::State::kAlive) return;
  if (why.code() == FLOE_ERR_INTERNAL) return fail(why.in(member.who), peer);
  log(LogLevel::kInfo, "'{}': {} is lost: {}", config_.name, member.who, why.message());
  set_dead(member, "died", false);
}

}  // namespace floe
