#include "engine/group.h"

#include <algorithm>

#include "base/log.h"

namespace floe {
namespace {

std::vector<Messenger::Route> routes(const std::vector<Member>& members) {
  std::vector<Messenger::Route> result;
  result.reserve(members.size());
  for (const Member& member : members) result.push_back(member.route);
  return result;
}

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
  // Dekker: what was published comes before the look for sleepers; pairs with Bell::begin_sleep.
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
