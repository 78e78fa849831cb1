// floe_comm_shrink of ranks that do not all share memory: carries out what Agreement decides, over the
// letters of the communicator that has failed. A process of this host is dead when its pidfd says so; one
// elsewhere is out of reach when libfabric's connection to it is gone, which is all that can be known of it.
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "base/log.h"
#include "comm/communicator.h"

namespace floe {
namespace {

// Slots of letters: a board, why a rank gave up, and a value for each phase of the wire-up.
constexpr size_t kBoardSlot = 0, kReasonSlot = 1, kFirstValueSlot = 2;
static_assert(kFirstValueSlot + kPhases <= Group::Letter::kSlots);
static_assert(Exchange::kMaxValue <= Group::Letter::kMostBytes);

std::string_view text_of(const Board& board) { return {reinterpret_cast<const char*>(&board), sizeof board}; }

class HostSurvivors final : public Exchange {
 public:
  HostSurvivors(Engine& engine, Group& group, Agreement& agreement, Deadline deadline)
      : engine_(engine), group_(group), agreement_(agreement), deadline_(deadline), peers_(group.size()) {}

  // Drops what is left of earlier calls, and takes part.
  void enter();
  // Hears and tells what there is; waits a moment for more if that is nothing.
  void pump();
  // Not OK if this rank must give up: it is in vain or too late.
  Status hopeless() const;
  void give_up_call(const Status& why);
  // Returns once all that live have been told, or soon.
  void settle();

  // The wire-up of one attempt.
  WireUpConfig config() const;  // of the attempt that has begun
  void begin(const Decision& proposal);
  Result<std::vector<std::string>> all(Phase phase, const std::string& mine, Deadline deadline) override;
  Status interrupted() override;
  void give_up(const Status&) override {}
  // After it has failed: whether that is because others have gone, so that another attempt may do.
  bool may_go_on();

  std::string names(const std::vector<uint32_t>& ranks) const;

 private:
  struct Peer {
    uint64_t told = 0;  // version of the board
    Clock::time_point at{};
  };

  bool exchange_letters();
  void hear();
  void tell(Clock::time_point now);
  const std::string& who(uint32_t rank) const { return group_.members()[rank].who; }
  Status failure_of(uint32_t rank) const;
  Status no_quorum() const;
  Status late() const;

  Engine& engine_;
  Group& group_;
  Agreement& agreement_;
  const Deadline deadline_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Peer> peers_;
  Decision attempt_;
};

void HostSurvivors::enter() {
  constexpr Millis kLongest(20);
  for (const Deadline soon = Deadline::in(kLongest); exchange_letters() && !soon.passed();) continue;
  agreement_.enter();
}

// True if something moved.
bool HostSurvivors::exchange_letters() {
  const std::lock_guard guard(engine_.lock());
  const int moved = engine_.progress_mail(group_);
  hear();
  return moved != 0;
}

void HostSurvivors::hear() {
  group_.hear_of_ends();
  std::vector<pollfd> fds;
  std::vector<uint32_t> owners;
  for (uint32_t rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    const Member& member = group_.members()[rank];
    Group::Letter& letter = group_.letter(rank, kBoardSlot);
    if (letter.fresh && letter.text.size() == sizeof(Board)) {
      Board board;
      std::memcpy(&board, letter.text.data(), sizeof board);
      agreement_.hear(rank, board);
    }
    letter.fresh = false;
    // Acquire: pairs with the release in Group::publish_state().
    const bool left = member.state == Member::State::kLeft ||
                      (member.segment && member.segment->header().state.load(std::memory_order_acquire) ==
                                             static_cast<uint32_t>(RankState::kLeft));
    if (left || member.state != Member::State::kAlive) agreement_.set_gone(rank, left || member.certain);
    if (!member.pidfd.valid()) continue;
    fds.push_back({member.pidfd.get(), POLLIN, 0});
    owners.push_back(rank);
  }
  if (fds.empty() || ::poll(fds.data(), fds.size(), 0) <= 0) return;
  for (size_t i = 0; i < fds.size(); ++i)
    if (fds[i].revents != 0) agreement_.set_gone(owners[i], true);
}

// The board, where it has changed; and again now and then to those whose loss must be found out by sending:
// the coordinator, or if this rank is it, everybody.
void HostSurvivors::tell(Clock::time_point now) {
  constexpr Millis kHeartbeat(500);
  const std::lock_guard guard(engine_.lock());
  const uint32_t coordinator = agreement_.coordinator();
  for (uint32_t rank = 0; rank < group_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (rank == group_.rank() || agreement_.board().gone.has(rank) || group_.has_mail_for(rank)) continue;
    const bool watched = rank == coordinator || group_.rank() == coordinator;
    if (peer.told == agreement_.version() && !(watched && now - peer.at > kHeartbeat)) continue;
    peer = {agreement_.version(), now};
    group_.post(rank, kBoardSlot, 0, text_of(agreement_.board()));
  }
}

void HostSurvivors::pump() {
  const bool moved = exchange_letters();
  const auto now = Clock::now();
  const uint64_t before = agreement_.version();
  for (uint64_t seen = before - 1; seen != agreement_.version();) {
    seen = agreement_.version();
    agreement_.step(now);
  }
  tell(now);
  constexpr int kGlanceMs = 1;
  if (!moved && before == agreement_.version()) ::poll(nullptr, 0, kGlanceMs);
}

void HostSurvivors::settle() {
  constexpr Millis kLongest(500);
  const Deadline soon = Deadline::in(kLongest);
  const auto told = [&] {
    for (uint32_t rank = 0; rank < group_.size(); ++rank) {
      if (rank == group_.rank() || agreement_.gone(rank)) continue;
      if (peers_[rank].told != agreement_.version() || group_.has_mail_for(rank)) return false;
    }
    return engine_.fabric_if_open() == nullptr || engine_.fabric_if_open()->idle();
  };
  do pump();
  while (!soon.passed() && ![&] {
    const std::lock_guard guard(engine_.lock());
    return told();
  }());
}

// ---- The end without success ----------------------------------------------------------------------------

std::string HostSurvivors::names(const std::vector<uint32_t>& ranks) const {
  std::string text;
  for (const uint32_t rank : ranks) text += (text.empty() ? "" : ", ") + who(rank);
  return text;
}

Status HostSurvivors::failure_of(uint32_t rank) const {
  const auto why = parse_failure(group_.letter(rank, kReasonSlot).text);
  if (!why) return error(FLOE_ERR_PEER, "{} gave up", who(rank));
  return error(why->code(), "{} ({} gave up)", why->message(), who(rank));
}

Status HostSurvivors::no_quorum() const {
  std::vector<uint32_t> gone;
  size_t hosts = 0, left = 0;
  for (uint32_t rank = 0; rank < group_.size(); ++rank) {
    bool lives = false;
    for (uint32_t other = rank; other < group_.size(); ++other)
      lives |= group_.members()[other].host == rank && !agreement_.gone(other);
    hosts += group_.members()[rank].host == rank;
    left += lives;
    if (agreement_.gone(rank)) gone.push_back(rank);
  }
  return error(
      FLOE_ERR_PEER,
      "{} died or can't be reached. If the network is broken they may live and go on without this rank: it "
      "can go on only with more than half of the {} hosts, or half with rank 0's, and {} is left. Destroy "
      "the "
      "communicator and create a new one through a store",
      names(gone), hosts, left);
}

Status HostSurvivors::late() const {
  const auto absent = agreement_.absent();
  if (!absent.empty())
    return error(FLOE_ERR_TIMEOUT,
                 "(Timed out) {} neither called floe_comm_shrink nor ended within {:.1f} s of {}'s call",
                 names(absent), seconds_since(start_), who(group_.rank()));
  return error(FLOE_ERR_TIMEOUT,
               "(Timed out) the survivors did not agree within {:.1f} s; {} coordinates, in ballot {:#x}",
               seconds_since(start_), who(agreement_.coordinator()), agreement_.highest_ballot());
}

Status HostSurvivors::hopeless() const {
  if (agreement_.decided().attempt != 0) return {};
  if (const uint32_t rank = agreement_.who_gave_up(); rank != group_.rank()) return failure_of(rank);
  if (!agreement_.can_decide()) return no_quorum();
  return deadline_.passed() ? late() : Status();
}

void HostSurvivors::give_up_call(const Status& why) {
  {
    const std::lock_guard guard(engine_.lock());
    for (uint32_t rank = 0; rank < group_.size(); ++rank)
      if (rank != group_.rank() && !agreement_.board().gone.has(rank))
        group_.post(rank, kReasonSlot, 0, failure_text(why));
  }
  agreement_.give_up();
  settle();
}

// ---- Wire-up --------------------------------------------------------------------------------------------

void HostSurvivors::begin(const Decision& proposal) {
  attempt_ = proposal;
  agreement_.begin(proposal.attempt);
}

WireUpConfig HostSurvivors::config() const {
  WireUpConfig config;
  config.name = group_.name();
  config.timeout_ms = static_cast<uint64_t>(std::max<int64_t>(deadline_.left().count(), 1));
  config.size = 0;
  for (uint32_t rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) config.rank = config.size;
    config.size += attempt_.ranks.has(rank) ? 1 : 0;
  }
  return config;
}

Status HostSurvivors::interrupted() {
  pump();
  if (agreement_.superseded(attempt_.attempt)) return error(FLOE_ERR_PEER, "another attempt has begun");
  if (agreement_.broken(attempt_.ranks)) return error(FLOE_ERR_PEER, "a rank died or can't be reached");
  return hopeless();
}

Result<std::vector<std::string>> HostSurvivors::all(Phase phase, const std::string& mine, Deadline deadline) {
  const size_t slot = kFirstValueSlot + static_cast<size_t>(phase);
  {
    const std::lock_guard guard(engine_.lock());
    for (uint32_t rank = 0; rank < group_.size(); ++rank)
      if (attempt_.ranks.has(rank) && rank != group_.rank()) group_.post(rank, slot, attempt_.attempt, mine);
  }
  std::vector<std::string> values;
  for (uint32_t rank = 0; rank < group_.size(); ++rank) {
    if (!attempt_.ranks.has(rank)) continue;
    for (;;) {
      if (rank == group_.rank()) break;
      {
        const std::lock_guard guard(engine_.lock());
        if (group_.letter(rank, slot).id == attempt_.attempt) break;
      }
      FLOE_TRY(interrupted());
      if (deadline.passed())
        return error(FLOE_ERR_TIMEOUT, "(Timed out) {} did not arrive within {:.1f} s (phase {})", who(rank),
                     seconds_since(start_), phase_name(phase));
    }
    const std::lock_guard guard(engine_.lock());
    values.push_back(rank == group_.rank() ? mine : group_.letter(rank, slot).text);
  }
  return values;
}

bool HostSurvivors::may_go_on() {
  constexpr Millis kNewsTime(1000);  // what made the wire-up fail may be known here a moment later
  const Deadline soon = deadline_.earlier(Deadline::in(kNewsTime));
  do {
    pump();
    if (agreement_.superseded(attempt_.attempt) || agreement_.broken(attempt_.ranks)) return true;
  } while (!soon.passed() && agreement_.who_gave_up() == group_.rank());
  return false;
}

}  // namespace

bool Communicator::spans_hosts() const {
  return size() != 1 && std::any_of(group_.members().begin(), group_.members().end(),
                                    [](const Member& member) { return member.segment == nullptr; });
}

Agreement& Communicator::agreement() {
  if (agreement_) return *agreement_;
  std::vector<uint32_t> hosts;
  for (const Member& member : group_.members()) hosts.push_back(member.host);
  const auto& keeper = group_.members()[hosts[rank()]].segment;
  agreement_ = std::make_unique<Agreement>(rank(), hosts, keeper ? keeper->header().shrink.vote : own_vote_);
  return *agreement_;
}

void Communicator::say_farewell() {
  if (size() > RankSet::kMostRanks) return;
  try {
    if (agreement().decided().attempt != 0) return;
    agreement().leave();
    for (uint32_t peer = 0; peer < size(); ++peer)
      if (peer != rank() && group_.members()[peer].state == Member::State::kAlive)
        group_.post(peer, kBoardSlot, 0, text_of(agreement().board()));
  } catch (const std::bad_alloc&) {  // then they wait for this rank until their deadline
  }
}

Result<std::unique_ptr<Communicator>> Communicator::shrink_across_hosts(Deadline deadline) {
  if (agreement().decided().attempt != 0)
    return error(FLOE_ERR_ARGUMENT, "it has been shrunk already: shrink the communicator that came of it");
  HostSurvivors survivors(*engine_, group_, agreement(), deadline);
  std::map<uint64_t, std::unique_ptr<Communicator>> made;  // by attempt
  survivors.enter();
  Status problem;
  while (problem.ok() && agreement().decided().attempt == 0) {
    survivors.pump();
    problem = survivors.hopeless();
    const Decision next = agreement().to_wire_up();
    if (!problem.ok() || next.attempt == 0) continue;
    survivors.begin(next);
    auto connected = connect(engine_, survivors.config(), &survivors);
    if (connected.ok()) {
      made[next.attempt] = std::move(*connected);
      agreement().ready(next.attempt);
    } else {
      log(LogLevel::kInfo, "'{}': shrink: {}", group_.name(), connected.status().message());
      if (!survivors.may_go_on()) problem = connected.status();
    }
  }
  const Decision& decided = agreement().decided();
  std::unique_ptr<Communicator> result;
  if (decided.attempt != 0) {
    survivors.settle();
    result = std::move(made[decided.attempt]);
  } else {
    survivors.give_up_call(problem);
  }
  for (auto& [attempt, other] : made)
    if (other) other->abort();  // its ranks all drop theirs: no time for farewells
  made.clear();
  if (result) return result;
  if (decided.attempt == 0) return problem;
  if (!decided.ranks.has(rank()))
    return error(FLOE_ERR_PEER, "the others go on without this rank, as one of them could not reach it");
  return error(FLOE_ERR_TIMEOUT,
               "(Timed out) the survivors have agreed, but on what this rank had given up with an earlier "
               "call: destroy the communicator and create a new one through a store");
}

}  // namespace floe
