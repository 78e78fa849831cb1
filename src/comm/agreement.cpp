#include "comm/agreement.h"

#include <algorithm>

namespace floe {
namespace {

// A ballot number tells whose it is, so that two coordinators never have the same.
constexpr int kRankBits = 16;
uint64_t next_ballot(uint64_t above, uint32_t rank) { return ((above >> kRankBits) + 1) << kRankBits | rank; }

// Two ranks that both take themselves for the coordinator overtake each other; then they wait, each a
// different while, longer every time.
constexpr Millis kShortestPause(10), kLongestPause(1000);

}  // namespace

Agreement::Agreement(uint32_t self, std::vector<uint32_t> hosts, HostVote& vote)
    : self_(self),
      hosts_(std::move(hosts)),
      vote_(vote),
      boards_(hosts_.size()),
      old_calls_(hosts_.size()),
      random_(self + 1) {}

void Agreement::enter() {
  Board& mine = boards_[self_];
  ++mine.calls;
  mine.presence = Board::kInside;
  mine.absent = {};
  for (uint32_t rank = 0; rank < size(); ++rank)
    old_calls_[rank] = boards_[rank].presence == Board::kGaveUp ? boards_[rank].calls : 0;
  pause_ = Millis(0);
  ++version_;
}

void Agreement::give_up() {
  Board& mine = boards_[self_];
  mine.presence = Board::kGaveUp;
  for (const uint32_t rank : absent()) mine.absent.add(rank);
  ++version_;
}

void Agreement::leave() {
  boards_[self_].presence = Board::kLeft;
  ++version_;
}

void Agreement::hear(uint32_t rank, const Board& board) {
  boards_[rank] = board;
  if (board.presence == Board::kLeft) set_gone(rank, true);
}

void Agreement::set_gone(uint32_t rank, bool certainly) {
  if (certainly) certainly_gone_.add(rank);
  if (board().gone.has(rank)) return;
  boards_[self_].gone.add(rank);
  ++version_;
}

bool Agreement::gone(uint32_t rank) const {
  for (uint32_t other = 0; other < size(); ++other)
    if ((other == self_ || inside(other)) && boards_[other].gone.has(rank)) return true;
  return false;
}

std::vector<uint32_t> Agreement::absent() const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size(); ++rank)
    if (rank != self_ && !inside(rank) && !gone(rank)) ranks.push_back(rank);
  return ranks;
}

uint32_t Agreement::who_gave_up() const {
  // Too late to take anything back: what this rank has made may be chosen at any moment.
  for (const Board& theirs : boards_)
    if (theirs.stage == Board::kAccept && theirs.proposal.ranks.has(self_)) return self_;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    const Board& theirs = boards_[rank];
    // Where deadlines pass together this rank may be in its next call when it hears that another's has ended.
    const bool in_this_call = theirs.calls > old_calls_[rank] && theirs.calls >= board().calls;
    if (rank != self_ && theirs.presence == Board::kGaveUp && in_this_call && !theirs.absent.has(self_))
      return rank;
  }
  return self_;
}

// More than half of the hosts, or half with the one of rank 0: any two quorums have a host in common.
bool Agreement::is_quorum(const std::vector<bool>& hosts) const {
  size_t all = 0, there = 0;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (hosts_[rank] != rank) continue;
    ++all;
    there += hosts[rank];
  }
  return 2 * there > all || (2 * there == all && hosts[0]);
}

bool Agreement::can_decide() const {
  std::vector<bool> hosts(size());
  for (uint32_t rank = 0; rank < size(); ++rank)
    if (rank == self_ || !gone(rank)) hosts[hosts_[rank]] = true;
  return is_quorum(hosts);
}

// ---- Voter ----------------------------------------------------------------------------------------------

// The lowest rank of this host that lives: never two at once, as the others have certainly gone.
bool Agreement::votes_for_host() const {
  for (uint32_t rank = hosts_[self_]; rank < self_; ++rank)
    if (hosts_[rank] == hosts_[self_] && !certainly_gone_.has(rank)) return false;
  return true;
}

void Agreement::vote() {
  const auto latest = std::max_element(boards_.begin(), boards_.end(),
                                       [](const Board& a, const Board& b) { return a.ballot < b.ballot; });
  Board& mine = boards_[self_];
  HostVote::Record vote = vote_.read();
  const uint64_t ballot = latest->ballot;
  if (latest->stage == Board::kAccept && ballot >= vote.promised && ballot > vote.accepted)
    vote_.accept(ballot, latest->proposal.attempt, latest->proposal.ranks);
  else if (ballot > vote.promised)
    vote_.promise(ballot);
  vote = vote_.read();
  if (mine.promised == vote.promised && mine.accepted == vote.accepted) return;
  mine.promised = vote.promised;
  mine.accepted = vote.accepted;
  mine.accepted_decision = {vote.attempt, vote.ranks};
  ++version_;
}

// ---- Coordinator ----------------------------------------------------------------------------------------

uint32_t Agreement::coordinator() const {
  uint32_t rank = 0;
  while (rank != self_ && gone(rank)) ++rank;
  return rank;
}

uint64_t Agreement::highest_ballot() const {
  uint64_t highest = 0;
  for (const Board& theirs : boards_) highest = std::max({highest, theirs.ballot, theirs.promised});
  return highest;
}

// All that are here, from the lowest up, but those that one of them can't reach or that can't reach it.
RankSet Agreement::survivors() const {
  RankSet chosen;
  chosen.add(self_);
  for (uint32_t rank = 0; rank < size(); ++rank) {
    bool fits = rank != self_ && inside(rank);
    for (uint32_t other = 0; other < size() && fits; ++other)
      if (chosen.has(other)) fits = !boards_[other].gone.has(rank) && !boards_[rank].gone.has(other);
    if (fits) chosen.add(rank);
  }
  return chosen;
}

bool Agreement::broken(const RankSet& ranks) const {
  for (uint32_t rank = 0; rank < size(); ++rank)
    for (uint32_t other = 0; other < size() && ranks.has(rank); ++other)
      if (ranks.has(other) && boards_[rank].gone.has(other)) return true;
  return false;
}

void Agreement::propose(Clock::time_point now) {
  if (now < next_ballot_ || !absent().empty()) return;
  Board& mine = boards_[self_];
  mine.ballot = next_ballot(highest_ballot(), self_);
  mine.stage = Board::kPrepare;
  mine.proposal = {};
  pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
  next_ballot_ =
      now + Millis(std::uniform_int_distribution<int64_t>(pause_.count() / 2, pause_.count())(random_));
  ++version_;
}

void Agreement::after_promises() {
  Board& mine = boards_[self_];
  std::vector<bool> promised(size());
  const Board* latest = nullptr;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (boards_[rank].promised != mine.ballot) continue;
    promised[hosts_[rank]] = true;
    if (!latest || boards_[rank].accepted > latest->accepted) latest = &boards_[rank];
  }
  if (!is_quorum(promised)) return;
  if (latest->accepted != 0) {  // it may be decided already
    mine.proposal = latest->accepted_decision;
    mine.stage = Board::kAccept;
  } else {
    mine.proposal = {mine.ballot, survivors()};
    mine.stage = Board::kWireUp;
  }
  ++version_;
}

void Agreement::after_wire_up() {
  Board& mine = boards_[self_];
  bool all = true;
  for (uint32_t rank = 0; rank < size(); ++rank)
    all &= !mine.proposal.ranks.has(rank) || boards_[rank].ready == mine.ballot;
  if (all)
    mine.stage = Board::kAccept;
  else if (broken(mine.proposal.ranks))
    mine.stage = Board::kIdle;
  else
    return;
  ++version_;
}

void Agreement::after_accepts() {
  Board& mine = boards_[self_];
  std::vector<bool> accepted(size());
  for (uint32_t rank = 0; rank < size(); ++rank)
    if (boards_[rank].accepted == mine.ballot) accepted[hosts_[rank]] = true;
  if (!is_quorum(accepted)) return;
  mine.decided = mine.proposal;
  ++version_;
}

void Agreement::coordinate(Clock::time_point now) {
  const Board& mine = board();
  if (coordinator() != self_) return;
  if (mine.stage == Board::kIdle || mine.ballot < highest_ballot()) return propose(now);
  if (mine.stage == Board::kPrepare)
    after_promises();
  else if (mine.stage == Board::kWireUp)
    after_wire_up();
  else
    after_accepts();
}

void Agreement::step(Clock::time_point now) {
  Board& mine = boards_[self_];
  for (const Board& theirs : boards_) {
    if (mine.decided.attempt != 0) return;
    if (theirs.decided.attempt == 0) continue;
    mine.decided = theirs.decided;
    ++version_;
  }
  if (mine.presence != Board::kInside) return;
  coordinate(now);
  if (votes_for_host()) vote();
}

// ---- Member ---------------------------------------------------------------------------------------------

Decision Agreement::to_wire_up() const {
  Decision latest;
  for (const Board& theirs : boards_)
    if (theirs.stage == Board::kWireUp && theirs.ballot > std::max(latest.attempt, tried_))
      latest = {theirs.ballot, theirs.proposal.ranks};
  return latest.ranks.has(self_) && !superseded(latest.attempt) ? latest : Decision{};
}

void Agreement::begin(uint64_t attempt) {
  tried_ = attempt;
  boards_[self_].ready = 0;
  ++version_;
}

void Agreement::ready(uint64_t attempt) {
  boards_[self_].ready = attempt;
  ++version_;
}

bool Agreement::superseded(uint64_t attempt) const {
  return decided().attempt != 0 || std::any_of(boards_.begin(), boards_.end(), [&](const Board& theirs) {
           return theirs.ballot > attempt && theirs.stage >= Board::kWireUp;
         });
}

}  // namespace floe
