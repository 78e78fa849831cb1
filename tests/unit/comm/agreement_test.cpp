// Agreement against a network that loses, delays and repeats boards, breaks for good between any two hosts,
// and ranks that die at any moment: nobody ever decides anything else than another, and who can, decides.
#include "comm/agreement.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>

namespace floe {
namespace {

// Ranks of several hosts, whose boards pass as chance has it.
class Network {
 public:
  Network(std::vector<uint32_t> hosts, uint32_t seed) : hosts_(std::move(hosts)), random_(seed) {
    for (uint32_t rank = 0; rank < size(); ++rank)
      ranks_.push_back({std::make_unique<Agreement>(rank, hosts_, votes_[hosts_[rank]])});
    links_.assign(size(), std::vector<bool>(size(), true));
  }

  uint32_t size() const { return static_cast<uint32_t>(hosts_.size()); }
  Agreement& operator[](uint32_t rank) { return *ranks_[rank].agreement; }
  bool lives(uint32_t rank) const { return ranks_[rank].lives; }
  bool holds(uint32_t rank, uint64_t attempt) const { return ranks_[rank].holds.contains(attempt); }
  bool one_of(uint32_t chance) { return random_() % chance == 0; }
  uint32_t any() { return static_cast<uint32_t>(random_() % size()); }

  void kill(uint32_t rank) { ranks_[rank].lives = false; }
  // For good, and each side finds out when it does.
  void cut(uint32_t a, uint32_t b) { links_[a][b] = links_[b][a] = false; }

  // One rank does something.
  void turn(bool reliable) {
    const uint32_t me = any(), from = any();
    if (!lives(me)) return;
    now_ += Millis(1);
    notice(me, from);
    if (from != me && links_[from][me] && (lives(from) || hosts_[from] != hosts_[me]) &&
        (reliable || !one_of(3)))
      (*this)[me].hear(from, ranks_[from].sent);
    (*this)[me].step(now_);
    wire_up(me);
    if (reliable || !one_of(3)) ranks_[me].sent = (*this)[me].board();
  }

 private:
  struct Rank {
    std::unique_ptr<Agreement> agreement;
    Board sent{};  // the last that has left
    bool lives = true;
    uint64_t tries = 0;
    std::set<uint64_t> holds{};
  };

  void notice(uint32_t me, uint32_t other) {
    if (other == me) return;
    const bool local = hosts_[other] == hosts_[me];
    if (local ? !lives(other) : (!lives(other) || !links_[me][other]) && one_of(4))
      (*this)[me].set_gone(other, local);
  }

  void wire_up(uint32_t me) {
    Rank& rank = ranks_[me];
    Agreement& agreement = *rank.agreement;
    if (rank.tries != 0 && agreement.superseded(rank.tries)) rank.tries = 0;
    if (const Decision next = agreement.to_wire_up(); next.attempt != 0) {
      agreement.begin(next.attempt);
      rank.tries = next.attempt;
    }
    if (rank.tries != 0 && one_of(3)) {
      rank.holds.insert(rank.tries);
      agreement.ready(std::exchange(rank.tries, 0));
    }
  }

  const std::vector<uint32_t> hosts_;
  std::mt19937 random_;
  std::map<uint32_t, HostVote> votes_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<bool>> links_;
  Clock::time_point now_{};
};

// What all that have decided, dead or alive, have decided. Who does so holds it, if it is in it.
std::optional<Decision> common_decision(Network& net) {
  std::optional<Decision> decision;
  for (uint32_t rank = 0; rank < net.size(); ++rank) {
    const Decision& mine = net[rank].decided();
    if (mine.attempt == 0) continue;
    if (!decision) decision = mine;
    EXPECT_EQ(decision->attempt, mine.attempt) << "rank " << rank;
    EXPECT_TRUE(*decision == mine) << "rank " << rank;
    EXPECT_TRUE(!mine.ranks.has(rank) || net.holds(rank, mine.attempt)) << "rank " << rank;
  }
  return decision;
}

const std::vector<std::vector<uint32_t>> kLayouts = {{0, 1},       {0, 1, 2},          {0, 0, 2, 2},
                                                     {0, 1, 2, 3}, {0, 1, 0, 1, 4, 4}, {0, 0, 0, 3, 3, 5, 6}};

TEST(Agreement, NobodyEverDecidesAnythingElse) {
  size_t decided = 0, broken = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const auto& hosts = kLayouts[seed % kLayouts.size()];
    Network net(hosts, seed);
    for (uint32_t rank = 0; rank < net.size(); ++rank) net[rank].enter();
    for (int turn = 0; turn < 6000 && !testing::Test::HasFailure(); ++turn) {
      if (net.one_of(400)) net.kill(net.any());
      if (const uint32_t a = net.any(), b = net.any(); net.one_of(600) && hosts[a] != hosts[b]) net.cut(a, b);
      net.turn(false);
      if (turn % 16 == 0) common_decision(net);
    }
    decided += common_decision(net).has_value();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    broken += !common_decision(net);
  }
  EXPECT_GT(decided, 300u) << "else little has been shown";
  EXPECT_GT(broken, 0u);
}

// Whoever dies, as long as enough hosts are there and the network is whole: all that live decide, and who
// dies before the end is not in it.
TEST(Agreement, WhereEnoughHostsAreLeftAllThatLiveDecide) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const auto& hosts = kLayouts[seed % kLayouts.size()];
    Network net(hosts, seed);
    for (uint32_t rank = 0; rank < net.size(); ++rank) net[rank].enter();
    std::vector<uint32_t> dead;
    for (int turn = 0; turn < 30'000; ++turn) {
      const uint32_t victim = net.any();
      std::vector<bool> left(net.size());  // hosts
      for (uint32_t rank = 0; rank < net.size(); ++rank)
        if (rank != victim && net.lives(rank)) left[hosts[rank]] = true;
      size_t all = 0, there = 0;
      for (uint32_t rank = 0; rank < net.size(); ++rank)
        all += hosts[rank] == rank, there += hosts[rank] == rank && left[rank];
      const bool enough = 2 * there > all || (2 * there == all && left[0]);
      if (turn < 2000 && enough && net.one_of(300)) net.kill(victim);
      net.turn(true);
    }
    const auto decision = common_decision(net);
    ASSERT_TRUE(decision.has_value()) << "seed " << seed;
    for (uint32_t rank = 0; rank < net.size(); ++rank)
      if (net.lives(rank)) {
        ASSERT_NE(0u, net[rank].decided().attempt) << "seed " << seed << ", rank " << rank;
        ASSERT_TRUE(decision->ranks.has(rank)) << "seed " << seed << ", rank " << rank;
      }
  }
}

TEST(Agreement, NamesWhoIsMissingAndWaits) {
  Network net({0, 1, 2}, 1);
  net[0].enter();
  net[1].enter();
  for (int turn = 0; turn < 1000; ++turn) net.turn(true);
  EXPECT_FALSE(common_decision(net).has_value());
  EXPECT_EQ(std::vector<uint32_t>{2}, net[0].absent());
  EXPECT_EQ(0u, net[0].who_gave_up());
  net[1].give_up();
  for (int turn = 0; turn < 1000; ++turn) net.turn(true);
  EXPECT_EQ(1u, net[0].who_gave_up()) << "whom it waited for ends this rank's call, too";
  EXPECT_EQ(2u, net[2].who_gave_up()) << "but not that of the one that it waited for";
  // Then all come, in any order.
  net[0].give_up();
  for (const uint32_t rank : {2u, 0u, 1u}) net[rank].enter();
  for (int turn = 0; turn < 3000; ++turn) net.turn(true);
  const auto decision = common_decision(net);
  ASSERT_TRUE(decision.has_value());
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(decision->ranks.has(rank));
}

TEST(Agreement, WhoGivesUpAnEarlierCallLateDoesNotEndThisOne) {
  Network net({0, 1, 2}, 3);
  net[0].enter();
  net[1].enter();
  for (int turn = 0; turn < 1000; ++turn) net.turn(true);
  net[1].give_up();
  net[1].enter();
  net[0].give_up();
  for (int turn = 0; turn < 1000; ++turn) net.turn(true);
  EXPECT_EQ(1u, net[1].who_gave_up());
  for (const uint32_t rank : {0u, 2u}) net[rank].enter();
  for (int turn = 0; turn < 3000; ++turn) net.turn(true);
  const auto decision = common_decision(net);
  ASSERT_TRUE(decision.has_value());
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(decision->ranks.has(rank));
}

TEST(Agreement, HalfOfTheHostsIsEnoughWithRankZerosOnly) {
  for (const bool first_half : {true, false}) {
    Network net({0, 0, 2, 2}, 5);
    for (uint32_t rank = 0; rank < 4; ++rank) net[rank].enter();
    for (int turn = 0; turn < 20; ++turn) net.turn(true);
    for (const uint32_t rank : {0u, 1u}) net.kill(rank + (first_half ? 2 : 0));
    for (int turn = 0; turn < 5000; ++turn) net.turn(true);
    for (const uint32_t rank : {0u, 1u}) {
      const uint32_t survivor = rank + (first_half ? 0 : 2);
      EXPECT_EQ(first_half, net[survivor].decided().attempt != 0);
      EXPECT_EQ(first_half, net[survivor].can_decide());
    }
  }
}

}  // namespace
}  // namespace floe
