// What a group need not do on every pass: liveness, peers' faults, deadlines, probes.
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "engine/group.h"

namespace floe {
namespace {

// A collective that has waited this long tells its peers what it is, so that ranks that called different
// ones find out.
constexpr double kProbeAfterSeconds = 0.1;
// A peer whose flag shows another collective says which one within this time, or is blamed without.
constexpr double kExplainSeconds = 0.5;
// What a process has sent over fabric before it died may still arrive for this long.
constexpr double kArrivalSeconds = 0.2;

}  // namespace

template <class F>
void Group::for_each_operation(F&& f) const {
  for (const auto& collective : collectives_) f(*collective);
  for (const auto& message : messages_) f(*message);
}

void Group::check() {
  if (!fault_.ok()) return;
  check_members();
  if (peer_fault_) return;  // progress() adopts it
  check_waiting_for_gone();
  if (fault_.ok()) check_time();
}

bool Group::over_fabric(const Member& member) const { return member.route.transport != config_.shm.get(); }

void Group::set_left(Member& member) {
  all_alive_ = false;
  member.state = Member::State::kLeft;
  member.gone_since = Clock::now();
  member.how = "left the communicator";
  member.certain = true;
}

void Group::set_dead(Member& member, std::string how, bool certain) {
  all_alive_ = false;
  member.state = Member::State::kDied;
  member.gone_since = Clock::now();
  member.how = std::move(how);
  member.certain = certain;
}

void Group::hear_of_ends() {
  if (!config_.control) return;
  const uint64_t news = config_.control->poll();
  if (news == ends_heard_) return;
  for (Member& member : config_.members) {
    if (member.segment || member.state == Member::State::kLeft || member.certain) continue;
    const Control::End* const end = config_.control->end_of(member.engine);
    if (!end) continue;
    log(LogLevel::kInfo, "'{}': {} {}", config_.name, member.who, end->how);
    set_dead(member, end->how, end->certain);
  }
  ends_heard_ = news;
}

void Group::take_alarm() {
  // Acquire: pairs with the release in publish_state(); the peer's state is seen. Cleared before the look,
  // so that an alarm that comes meanwhile is not lost.
  alarm_->exchange(0, std::memory_order_acq_rel);
  if (fault_.ok()) check_members();
}

void Group::check_members() {
  hear_of_ends();
  std::vector<pollfd> fds;
  std::vector<uint32_t> owners;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    Member& member = config_.members[peer];
    if (peer == rank() || member.state != Member::State::kAlive) continue;
    if (member.segment) {
      const SegmentHeader& header = member.segment->header();
      // Acquire: pairs with the release in publish_state(); the record is complete.
      const auto state = static_cast<RankState>(header.state.load(std::memory_order_acquire));
      // Over fabric the news that it left comes as a packet, behind all that it has sent.
      if (state == RankState::kLeft && !over_fabric(member)) set_left(member);
      if (state == RankState::kFailed) return take_fault(peer);
    }
    if (member.pidfd.valid() && member.state == Member::State::kAlive) {
      fds.push_back({member.pidfd.get(), POLLIN, 0});
      owners.push_back(peer);
    }
  }
  if (fds.empty() || ::poll(fds.data(), fds.size(), 0) <= 0) return;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    Member& member = config_.members[owners[i]];
    // It may have left properly, or failed, just before it ended.
    const auto state = static_cast<RankState>(member.segment->header().state.load(std::memory_order_acquire));
    if (state == RankState::kFailed) return take_fault(owners[i]);
    if (state == RankState::kLeft)
      set_left(member);
    else
      set_dead(member, "died", true);
  }
}

void Group::take_fault(uint32_t peer) {
  if (peer_fault_) return;
  const Member& member = config_.members[peer];
  const FaultRecord& fault = member.segment->header().fault;
  const size_t length = ::strnlen(fault.text.data(), fault.text.size());
  hear_fault(peer, static_cast<uint64_t>(fault.code), fault.culprit, {fault.text.data(), length},
             over_fabric(member) ? kFaultAhead : Millis(0));
}

void Group::hear_fault(uint32_t peer, uint64_t code, uint64_t culprit, std::string_view text, Millis ahead) {
  if (code <= FLOE_IN_PROGRESS || code > FLOE_ERR_INTERNAL || culprit >= size())
    return fail(error(FLOE_ERR_INTERNAL, "{} sent an invalid fault", config_.members[peer].who), peer);
  peer_fault_ = PeerFault{Status(static_cast<floe_status_t>(code), std::string(text)),
                          static_cast<uint32_t>(culprit), Clock::now() + ahead};
}

Millis Group::longest_sleep() const {
  if (!fault_.ok()) return Millis::max();
  const auto until = [now = Clock::now()](Clock::time_point then) {
    return std::max(Millis(0), std::chrono::ceil<Millis>(then - now));
  };
  if (peer_fault_) return until(peer_fault_->adopt);
  constexpr Millis kSoon(100);  // what check() does some time after an event, and refused packets' next try
  const auto is_gone = [](const Member& member) { return member.state != Member::State::kAlive; };
  const bool soon = (!collectives_.empty() && !collectives_.front()->probed) || disagrees_ ||
                    messenger_.has_outgoing() ||
                    std::any_of(config_.members.begin(), config_.members.end(), is_gone);
  auto first = Clock::time_point::max();
  for_each_operation([&](const Operation& operation) { first = std::min(first, operation.deadline().at()); });
  return std::min(until(first), soon ? kSoon : Millis::max());
}

void Group::check_waiting_for_gone() {
  const auto& members = config_.members;
  const bool gone = std::any_of(members.begin(), members.end(),
                                [](const Member& m) { return m.state != Member::State::kAlive; });
  if (!gone) return;
  // What it published before it went still counts.
  constexpr int kEnough = 1 << 16;
  for (int pass = 0; pass < kEnough && progress() != 0; ++pass) {
  }
  for (uint32_t peer = 0; peer < size() && fault_.ok(); ++peer) {
    if (members[peer].state == Member::State::kAlive) continue;
    if (over_fabric(members[peer]) && seconds_since(members[peer].gone_since) < kArrivalSeconds) continue;
    const bool died = members[peer].state == Member::State::kDied;
    bool stuck = !collectives_.empty() && collectives_.front()->waits_for(peer);
    for (const auto& message : messages_) {
      if (!message->waits_for(peer)) continue;
      bool others = false;
      for (uint32_t other = 0; message->from_several() && other < size(); ++other)
        others |= message->waits_for(other) && members[other].state == Member::State::kAlive;
      stuck |= died || !others;
    }
    if (!stuck) continue;
    // A host's ranks may all die at once, and who waits for which differs: all name the first.
    uint32_t first = peer;
    for (uint32_t other = peer; died && other-- > 0;)
      if (members[other].host == members[peer].host && members[other].state == Member::State::kDied)
        first = other;
    fail(error(FLOE_ERR_PEER, "{} {}", members[first].who, members[first].how), first);
  }
}

std::string Group::waiting_for(const Operation& operation) const {
  std::string text;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank() || !operation.waits_for(peer)) continue;
    text += (text.empty() ? "" : ", ") + config_.members[peer].who;
  }
  return text.empty() ? "an earlier operation" : text;
}

void Group::check_time() {
  const auto now = Clock::now();
  Operation* late = nullptr;
  Operation* slow = nullptr;
  size_t more = 0;
  for_each_operation([&](Operation& operation) {
    if (operation.deadline().passed(now) && !late) late = &operation;
    const uint64_t quarter = operation.timeout_ms() / 4;
    if (operation.warned || quarter < 1000 || operation.elapsed(now) * 1e3 < static_cast<double>(quarter))
      return;
    operation.warned = true;
    if (slow)
      ++more;
    else
      slow = &operation;
  });
  if (slow)
    log(LogLevel::kWarn, "{} has waited {:.1f} s of {:.0f} s for {}{}", slow->title(), slow->elapsed(),
        static_cast<double>(slow->timeout_ms()) / 1e3, waiting_for(*slow),
        more == 0 ? "" : fmt::format(", and {} more operations", more));
  if (late) {
    uint32_t culprit = rank();
    for (uint32_t peer = 0; peer < size(); ++peer)
      if (peer != rank() && late->waits_for(peer)) culprit = peer;
    return fail(
        error(FLOE_ERR_TIMEOUT, "(Timed out) waited {:.1f} s for {}", late->elapsed(), waiting_for(*late)),
        culprit);
  }
  if (collectives_.empty()) return;
  Collective& front = *collectives_.front();
  if (!front.probed && front.elapsed() > kProbeAfterSeconds) probe(front);
  if (disagrees_ && front.elapsed() > kExplainSeconds)
    fail(error(
             FLOE_ERR_MISMATCH,
             "{} called another collective or other arguments than rank {}, now or before: rank {} called {}",
             config_.members[*disagrees_].who, rank(), rank(), describe(front.descriptor())),
         *disagrees_);
}

}  // namespace floe
