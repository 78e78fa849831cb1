// floe_comm_shrink: agreement of the ranks that live, in the shared memory of the communicator that failed.
// Where not all share memory: see shrink_hosts.cpp.
//
// Every rank has mapped the segments of all, and they stay when their owner dies; pidfds tell for certain who
// has died. So agreement is simple, in rounds: a rank enters a round and waits until every other rank has
// entered it too, has left, or is dead; then it proposes those that entered. The first proposal that a
// compare-and-swap puts on rank 0's board is the decision (consensus number of CAS: Herlihy 1991), whoever
// dies when. A rank whose time is up proposes to give up, in the same way.
//
// Then the survivors wire up, through values in their segments. The last phase is a vote, which is final: if
// all vote for it the new communicator stands, everywhere. If one died without a vote, another round
// leaves it out.
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "comm/communicator.h"

namespace floe {
namespace {

class Survivors final : public Exchange {
 public:
  Survivors(const std::vector<Member>& members, uint32_t self, Deadline deadline)
      : members_(members), self_(self), deadline_(deadline), dead_(members.size()) {}

  // A new round: decides who survives, the same on all ranks, or that the time is up.
  Status agree();
  const std::vector<uint32_t>& ranks() const { return ranks_; }

  Result<std::vector<std::string>> all(Phase phase, const std::string& mine, Deadline deadline) override;
  Status interrupted() override;
  void give_up(const Status& why) override;

  // After a failed wire-up: OK if another round may help, or the error that all ranks return.
  Status verdict();

 private:
  // Of ShrinkBoard::published: how many phases have been published, or this.
  static constexpr uint32_t kGaveUp = UINT32_MAX;

  const Segment& segment(uint32_t rank) const { return *members_[rank].segment; }
  ShrinkBoard& board(uint32_t rank) const { return segment(rank).header().shrink; }
  std::atomic<uint64_t>& decision() const { return board(0).decision; }
  uint64_t decided_round() const { return decision().load(std::memory_order_acquire) >> 32; }

  bool accounted(uint32_t rank) const {
    // Acquire: pairs with the releases in agree() and ~Communicator.
    return dead_[rank] || board(rank).entered.load(std::memory_order_acquire) >= round_;
  }
  bool has_left(uint32_t rank) const {
    return board(rank).entered.load(std::memory_order_acquire) == ShrinkBoard::kNever;
  }
  void propose(bool gave_up);
  Status adopt();
  void look_for_dead(Millis longest);
  uint32_t progress_of(uint32_t rank) const;
  void publish(Phase phase, uint32_t progress, std::string_view value);
  std::string value(uint32_t rank, Phase phase) const;
  Status failure_of(uint32_t rank) const;
  Status late(uint32_t rank, Phase phase) const;

  static constexpr Millis kGlance{1};

  const std::vector<Member>& members_;
  const uint32_t self_;
  const Deadline deadline_;
  const Clock::time_point start_ = Clock::now();
  std::vector<bool> dead_;
  std::vector<pollfd> polls_;
  std::vector<uint32_t> polled_;  // polls_[i] is of this rank
  uint64_t round_ = 0;
  std::vector<uint32_t> ranks_;  // the survivors
  bool voted_ = false;
};

// Waits for a death, at most so long. What a rank had written before it died is seen afterwards.
void Survivors::look_for_dead(Millis longest) {
  polls_.clear();
  polled_.clear();
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (dead_[rank] || !members_[rank].pidfd.valid()) continue;
    polls_.push_back({members_[rank].pidfd.get(), POLLIN, 0});
    polled_.push_back(rank);
  }
  ::poll(polls_.data(), polls_.size(), static_cast<int>(longest.count()));
  for (size_t i = 0; i < polls_.size(); ++i)
    if (polls_[i].revents != 0) dead_[polled_[i]] = true;
}

Status Survivors::agree() {
  ShrinkBoard& mine = board(self_);
  // After a round that was given up before this rank came, it joins the next one.
  round_ = std::max(mine.entered.load(std::memory_order_relaxed), decided_round()) + 1;
  voted_ = false;
  mine.entered.store(round_, std::memory_order_release);
  look_for_dead(Millis(0));
  while (decided_round() < round_) {
    bool complete = true;
    for (uint32_t rank = 0; rank < members_.size(); ++rank) complete &= accounted(rank);
    if (complete || deadline_.passed())
      propose(!complete);
    else
      look_for_dead(kGlance);
  }
  return adopt();
}

void Survivors::propose(bool gave_up) {
  ShrinkBoard& mine = board(self_);
  // Nobody reads this board's proposal now: who did so in the last round has entered this one or is dead.
  mine.gave_up = gave_up ? 1 : 0;
  mine.ranks = {};
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    const bool listed = gave_up ? !accounted(rank) : !dead_[rank] && !has_left(rank);
    if (listed) mine.ranks.add(rank);
  }
  uint64_t seen = decision().load(std::memory_order_acquire);
  // Release: pairs with the acquire in adopt(), which reads the proposal. Whoever fails adopts the winner's.
  if (seen >> 32 < round_)
    decision().compare_exchange_strong(seen, round_ << 32 | (self_ + 1), std::memory_order_acq_rel);
}

Status Survivors::adopt() {
  const uint64_t decided = decision().load(std::memory_order_acquire);
  const uint64_t winner = (decided & UINT32_MAX) - 1;
  if (winner >= members_.size())
    return error(FLOE_ERR_INTERNAL, "round {} was decided by rank {} of {}", round_, winner, members_.size());
  if (decided >> 32 != round_)
    return error(FLOE_ERR_TIMEOUT, "(Timed out) the other ranks gave up before this one came");
  const ShrinkBoard& proposal = board(static_cast<uint32_t>(winner));
  std::vector<uint32_t> listed;
  for (uint32_t rank = 0; rank < members_.size(); ++rank)
    if (proposal.ranks.has(rank)) listed.push_back(rank);
  if (proposal.gave_up != 0) {
    std::string names;
    for (const uint32_t rank : listed) names += (names.empty() ? "" : ", ") + members_[rank].who;
    return error(
        FLOE_ERR_TIMEOUT,
        "(Timed out) {} neither called floe_comm_shrink nor ended; {} stopped waiting, {:.1f} s after "
        "this rank's call",
        names, members_[winner].who, seconds_since(start_));
  }
  if (std::find(listed.begin(), listed.end(), self_) == listed.end())
    return error(FLOE_ERR_INTERNAL, "{} left out this rank, which lives", members_[winner].who);
  ranks_ = std::move(listed);
  return {};
}

// ---- Wire-up --------------------------------------------------------------------------------------------

// How far a rank is in this round.
uint32_t Survivors::progress_of(uint32_t rank) const {
  // Acquire: pairs with the release in publish(); the value is complete.
  const uint64_t word = board(rank).published.load(std::memory_order_acquire);
  return word >> 32 == (round_ & UINT32_MAX) ? static_cast<uint32_t>(word) : 0;
}

void Survivors::publish(Phase phase, uint32_t progress, std::string_view text) {
  std::byte* const place = segment(self_).value(static_cast<uint32_t>(phase));
  const uint64_t length = std::min(text.size(), kMaxValue);
  std::memcpy(place, &length, sizeof length);
  std::memcpy(place + sizeof length, text.data(), length);
  board(self_).published.store(round_ << 32 | progress, std::memory_order_release);
}

std::string Survivors::value(uint32_t rank, Phase phase) const {
  const std::byte* const place = segment(rank).value(static_cast<uint32_t>(phase));
  uint64_t length = 0;
  std::memcpy(&length, place, sizeof length);
  return {reinterpret_cast<const char*>(place + sizeof length), std::min<size_t>(length, kMaxValue)};
}

Status Survivors::failure_of(uint32_t rank) const {
  const auto why = parse_failure(value(rank, Phase::kReady));
  if (!why) return error(FLOE_ERR_INTERNAL, "{} gave up without a reason", members_[rank].who);
  return why->in(members_[rank].who);
}

Status Survivors::late(uint32_t rank, Phase phase) const {
  return error(FLOE_ERR_TIMEOUT, "(Timed out) {} did not arrive in {:.1f} s (phase {})", members_[rank].who,
               seconds_since(start_), phase_name(phase));
}

Result<std::vector<std::string>> Survivors::all(Phase phase, const std::string& mine, Deadline deadline) {
  voted_ = phase == Phase::kReady;
  const uint32_t wanted = static_cast<uint32_t>(phase) + 1;
  publish(phase, wanted, mine);
  std::vector<std::string> values;
  for (const uint32_t rank : ranks_) {
    while (progress_of(rank) < wanted) {
      // Dead before the look at what it has published, so that its last word counts.
      if (dead_[rank]) return error(FLOE_ERR_PEER, "{} died", members_[rank].who);
      if (deadline.passed()) return late(rank, phase);
      look_for_dead(kGlance);
    }
    if (progress_of(rank) == kGaveUp) return failure_of(rank);
    values.push_back(value(rank, phase));
  }
  return values;
}

Status Survivors::interrupted() {
  look_for_dead(Millis(0));
  for (const uint32_t rank : ranks_) {
    if (dead_[rank]) return error(FLOE_ERR_PEER, "{} died", members_[rank].who);
    if (progress_of(rank) == kGaveUp) return failure_of(rank);
  }
  return {};
}

void Survivors::give_up(const Status& why) {
  if (voted_) return;
  voted_ = true;
  publish(Phase::kReady, kGaveUp, failure_text(why));
}

Status Survivors::verdict() {
  constexpr uint32_t kVoted = kPhases;
  Status failure;
  for (const uint32_t rank : ranks_) {
    while (progress_of(rank) < kVoted && !dead_[rank]) {
      if (deadline_.passed()) return late(rank, Phase::kReady);
      look_for_dead(kGlance);
    }
    if (progress_of(rank) < kVoted) return {};  // it died without a vote
    if (progress_of(rank) == kGaveUp && failure.ok()) failure = failure_of(rank);
  }
  return failure;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::shrink() {
  const Deadline deadline = Deadline::in_ms(timeout_ms());
  const auto& members = group_.members();
  const auto in_words = [&](const Status& status) {
    return status.in(fmt::format("floe_comm_shrink of '{}' on rank {} of {}", group_.name(), rank(), size()));
  };
  if (size() > RankSet::kMostRanks)
    return in_words(error(FLOE_ERR_UNSUPPORTED, "more than {} ranks", RankSet::kMostRanks));
  abort();  // nothing is lost before

  WireUpConfig config;
  config.name = group_.name();
  config.timeout_ms = timeout_ms();
  if (size() == 1) return connect(engine_, config, nullptr);
  if (spans_hosts()) {
    auto made = shrink_across_hosts(deadline);
    if (!made.ok()) return in_words(made.status());
    hand_down_to(**made);
    return made;
  }
  Survivors survivors(members, rank(), deadline);
  for (;;) {  // ends: every further round is for a rank that has died, or the deadline passes
    const Status agreed = survivors.agree();
    if (!agreed.ok()) return in_words(agreed);
    const auto& ranks = survivors.ranks();
    config.rank = static_cast<uint32_t>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
    config.size = static_cast<uint32_t>(ranks.size());
    config.timeout_ms = static_cast<uint64_t>(std::max<int64_t>(deadline.left().count(), 1));
    auto made = connect(engine_, config, &survivors);
    if (made.ok()) {
      hand_down_to(**made);
      return made;
    }
    const Status verdict = survivors.verdict();
    if (!verdict.ok()) return in_words(verdict);
    log(LogLevel::kInfo, "'{}': another round of shrink: {}", group_.name(), made.status().message());
  }
}

}  // namespace floe
