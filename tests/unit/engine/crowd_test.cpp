// Whose a time slice was that a yield took.
#include "engine/crowd.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <deque>

namespace floe {
namespace {

constexpr uint32_t kCpu = 1, kOtherCpu = 0;
constexpr Millis kLong(4), kShort(1);

// Ranks of a host, as they see each other, at times that the test says.
class CrowdTest : public ::testing::Test {
 protected:
  explicit CrowdTest(size_t ranks = 3) : boards_(ranks) {
    for (CpuBoard& own : boards_) {
      Crowd& crowd = crowds_.emplace_back(own);
      for (const CpuBoard& peer : boards_)
        if (&peer != &own) crowd.add(peer);
    }
  }
  void waits(size_t rank, uint32_t cpu) { boards_[rank].set_last({now_, cpu, true}); }
  // Rank gave up the CPU `away` ago, and has it back.
  void comes_back(size_t rank, Millis away = kLong) { crowds_[rank].came_back(kCpu, now_ - away, now_); }
  bool is_crowd(size_t rank) const { return crowds_[rank].is_at(now_); }

  Clock::time_point now_ = Clock::now();
  std::deque<CpuBoard> boards_;
  std::deque<Crowd> crowds_;
};

TEST_F(CrowdTest, IsTwoSlicesOfOthersInARowAndIsForgotten) {
  comes_back(0);
  EXPECT_FALSE(is_crowd(0)) << "one may be anything";
  now_ += kLong;
  comes_back(0);
  EXPECT_TRUE(is_crowd(0));
  now_ += Crowd::kRemembered;
  EXPECT_FALSE(is_crowd(0));
}

TEST_F(CrowdTest, IsNotAFewSlices) {
  for (int turn = 0; turn < 10; ++turn, now_ += 4 * kLong) comes_back(0);
  EXPECT_FALSE(is_crowd(0));
}

TEST_F(CrowdTest, IsNotARankThatComputesOnTheCpu) {
  waits(1, kCpu);
  crowds_[1].leave();
  for (int turn = 0; turn < 10; ++turn, now_ += kLong) comes_back(0);
  EXPECT_FALSE(is_crowd(0));
  crowds_[0].remove(boards_[1]);
  for (int turn = 0; turn < 2; ++turn, now_ += kLong) comes_back(0);
  EXPECT_TRUE(is_crowd(0)) << "the rank is none of ours any more";
}

TEST_F(CrowdTest, IsNotARankThatHadTheCpuLast) {
  for (int turn = 0; turn < 10; ++turn, now_ += kLong) {
    waits(1, kCpu);
    now_ += kShort;
    comes_back(0);
  }
  EXPECT_FALSE(is_crowd(0));
}

TEST_F(CrowdTest, IsThereWithRanksOnOtherCpusOrAsleep) {
  waits(1, kCpu);
  for (int turn = 0; turn < 2; ++turn) {
    now_ += 2 * kLong;
    waits(2, kOtherCpu);
    comes_back(0);
  }
  EXPECT_TRUE(is_crowd(0));
}

// Of the ranks that the slice kept waiting the first one back sees whose it was.
TEST_F(CrowdTest, IsWhatTheFirstOneBackHasSeen) {
  for (int turn = 0; turn < 2; ++turn) {
    waits(0, kCpu);
    waits(1, kCpu);
    now_ += kLong;
    comes_back(0);
    waits(0, kCpu);
    comes_back(1);
  }
  EXPECT_TRUE(is_crowd(0));
  EXPECT_TRUE(is_crowd(1));
  EXPECT_FALSE(is_crowd(2));
}

TEST_F(CrowdTest, TakesAnythingForANote) {
  for (const uint64_t word : {uint64_t{0}, UINT64_MAX, uint64_t{1} << 63}) {
    boards_[1].last_word = word;
    boards_[1].slice_word = word;
    comes_back(0);
  }
}

TEST(Crowd, TellsARankThatRunsOnAnotherCpu) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &here);
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(here), &here), 0);
  const auto cpu = static_cast<uint32_t>(::sched_getcpu());
  CpuBoard peer{};
  const auto noted = [&](uint32_t at, bool waits) {
    peer.set_last({Clock::now(), at, waits});
    return Crowd::runs_elsewhere(peer);
  };
  EXPECT_TRUE(noted(cpu + 1, false));
  EXPECT_FALSE(noted(cpu + 1, true)) << "waits, for this rank perhaps";
  EXPECT_FALSE(noted(cpu, false)) << "cannot go on before this one gives up the CPU";
  EXPECT_FALSE(noted(cpu, true));
  EXPECT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(Crowd, TellsPeersThatTheRankWaitsUntilItLeaves) {
  CpuBoard board{};
  Crowd crowd(board);
  const auto before = Clock::now();
  Clock::time_point yielded{};
  EXPECT_TRUE(crowd.yield(&yielded));
  EXPECT_GE(yielded, before);
  EXPECT_TRUE(board.last().waits());
  EXPECT_TRUE(board.last().since(before));
  crowd.leave();
  EXPECT_FALSE(board.last().waits());
  EXPECT_TRUE(board.last().since(before));
}

}  // namespace
}  // namespace floe
