// The choice between two ways, such as of keeping a large result.
#include "shm/way_trial.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "shm/keeping.h"

namespace floe {
namespace {

Movement broadcast_of(uint64_t bytes) {
  return Movement({pattern::kBroadcast, nullptr, nullptr, bytes, FLOE_UINT8, 0, 0, 0}, 2, 1);
}

// How many of `operations` go past the cache, where they take so long.
int past_of(WayTrial& trial, int operations, double ordinary, double past) {
  int count = 0;
  for (int i = 0; i < operations; ++i) {
    const bool way = trial.next();
    trial.took(way ? past : ordinary);
    count += way ? 1 : 0;
  }
  return count;
}

TEST(WayTrial, TheFasterWayIsUsedAndTheOtherTriedSeldom) {
  WayTrial trial;
  EXPECT_LT(past_of(trial, 1000, 10, 15), 12);
  WayTrial other;
  EXPECT_GT(past_of(other, 1000, 15, 10), 988);
}

TEST(WayTrial, AChangeIsSeenSoon) {
  WayTrial trial;
  past_of(trial, 1000, 10, 15);
  past_of(trial, 100, 16, 11);  // the one in use takes longer
  EXPECT_EQ(past_of(trial, 30, 16, 11), 30);
  past_of(trial, 300, 7, 11);  // it takes as long as before, and the other one less
  EXPECT_LT(past_of(trial, 100, 7, 11), 2);
}

// What an operation takes depends on how the one before it stored, too.
TEST(WayTrial, ATrialIsOfSomeInARow) {
  WayTrial trial;
  bool before = trial.next();
  int past = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool way = trial.next();
    trial.took(before ? (way ? 10 : 8) : (way ? 14 : 12));
    before = way;
    past += way ? 1 : 0;
  }
  EXPECT_GT(past, 980);
}

// Those that began while memory was cold, or in the other way's wake.
TEST(WayTrial, TheFirstTwoOperationsOfAWayDoNotCount) {
  WayTrial trial;
  bool before = !trial.next();
  int since = 0;
  for (int i = 0; i < 100; ++i) {
    const bool way = trial.next();
    since = way == before ? since + 1 : 1;
    before = way;
    trial.took(way ? (since <= 2 ? 30 : 10) : (since <= 2 ? 5 : 15));
  }
  EXPECT_TRUE(trial.usual());
}

// Keeping past the cache may take longer, but the peer less until its next chunk is there.
TEST(WayTrial, WhatIsWaitedForBetweenTwoCopiesCounts) {
  constexpr useconds_t kLong = 100'000, kShort = 1000;
  Keeping::State state(1);
  const WayTrial& trial = state.trials.of(1);
  int ordinary = 0;
  for (int i = 0; i < 8; ++i) {
    const bool past = trial.next();
    ordinary += past ? 0 : 1;
    Keeping keeping(state, broadcast_of(1), true);
    keeping(1, [&] { ::usleep(past ? kShort : 0); });
    ::usleep(past ? 0 : kLong);
    keeping(1, [] {});
    keeping.end();
  }
  EXPECT_EQ(ordinary, 3);
  EXPECT_TRUE(trial.usual());
}

// Such as a hypervisor's, or of pages that are touched for the first time.
TEST(WayTrial, OneSlowOperationAtFirstDecidesNothing) {
  for (int slow = 0; slow < 5; ++slow) {
    WayTrial trial;
    for (int i = 0; i < 8; ++i) {
      const bool past = trial.next();
      trial.took(i == slow ? 30 : past ? 10 : 15);
    }
    EXPECT_TRUE(trial.usual()) << slow;
  }
}

// As where a result only just fits into the cache, beside what else is there.
TEST(WayTrial, AWayThatIsFastForSomeOperationsOnlyIsTriedLessOften) {
  constexpr int kOperations = 6000, kFast = 12;
  WayTrial trial;
  int ordinary = 0, in_a_row = 0;
  for (int i = 0; i < kOperations; ++i) {
    const bool past = trial.next();
    in_a_row = past ? 0 : in_a_row + 1;
    ordinary += past ? 0 : 1;
    trial.took(past ? 10 : in_a_row <= kFast ? 8 : 20);
  }
  EXPECT_LT(ordinary, kOperations / 50);
}

// Of results of half the cache up to all of it every fourth or second chunk goes past it, of larger ones
// each.
TEST(Keeping, PastTheCacheGoesWhatDoesNotFit) {
  constexpr uint64_t kCache = 16 << 20;
  const auto stride = [](const Pattern& pattern, uint64_t bytes) {
    return Keeping::stride(Movement({pattern, nullptr, nullptr, bytes, FLOE_UINT8, 0, 0, 0}, 2, 1), kCache);
  };
  EXPECT_EQ(stride(pattern::kBroadcast, kCache / 2 - 1), 0u);
  EXPECT_EQ(stride(pattern::kBroadcast, kCache / 2), 4u);
  EXPECT_EQ(stride(pattern::kBroadcast, kCache / 3 * 2 - 1), 4u);
  EXPECT_EQ(stride(pattern::kBroadcast, kCache / 3 * 2), 2u);
  EXPECT_EQ(stride(pattern::kBroadcast, kCache - 1), 2u);
  EXPECT_EQ(stride(pattern::kBroadcast, kCache), 1u);
  EXPECT_EQ(stride(pattern::kAllGather, kCache / 4), 4u);  // of two ranks
  EXPECT_EQ(stride(pattern::kReduce, 4 * kCache), 0u);
  EXPECT_EQ(Keeping::stride(broadcast_of(kCache), UINT64_MAX), 0u);  // the cache is not known
}

TEST(Keeping, ChunksOfTheStrideGoPastTheCache) {
  constexpr uint64_t kCache = 16 << 20;
  Keeping::State state(kCache);
  ASSERT_TRUE(state.trials.of(kCache).next());
  const auto past = [&](uint64_t bytes) {
    const Keeping keeping(state, broadcast_of(bytes), true);
    std::string chunks;
    for (uint64_t chunk = 0; chunk < 5; ++chunk) {
      EXPECT_EQ(keeping.copy_own(chunk) == copy_non_temporal, keeping.past(chunk));
      chunks += keeping.past(chunk) ? 'x' : '.';
    }
    return chunks;
  };
  EXPECT_EQ(past(kCache / 4), ".....");
  EXPECT_EQ(past(kCache / 2), "x...x");
  EXPECT_EQ(past(kCache / 3 * 2), "x.x.x");
  EXPECT_EQ(past(kCache), "xxxxx");
  past_of(state.trials.of(kCache), 100, 10, 15);
  ASSERT_FALSE(state.trials.of(kCache).next());
  EXPECT_EQ(past(kCache), ".....");
  EXPECT_EQ(past(2 * kCache - 1), ".....");
  EXPECT_EQ(past(2 * kCache), "xxxxx");
  EXPECT_EQ(past(kCache - 1), "x.x.x");
}

TEST(WayTrial, OneSlowOperationChangesNothing) {
  WayTrial trial;
  past_of(trial, 100, 10, 15);
  trial.took(1000);
  EXPECT_LT(past_of(trial, 100, 10, 15), 3);
}

TEST(WayTrials, WhatIsFasterForOneSizeIsNotUsedForAnother) {
  constexpr uint64_t kCache = 16 << 20;
  WayTrials trials(kCache / 4);
  past_of(trials.of(kCache / 4), 100, 10, 15);
  EXPECT_FALSE(trials.of(kCache / 2 - 1).usual());
  EXPECT_TRUE(trials.of(kCache / 4 - 1).usual());
  EXPECT_TRUE(trials.of(kCache / 2).usual());
  EXPECT_NE(&trials.of(kCache - 1), &trials.of(kCache));
  EXPECT_NE(&trials.of(2 * kCache - 1), &trials.of(2 * kCache));
  EXPECT_EQ(&trials.of(2 * kCache), &trials.of(UINT64_MAX));
}

TEST(WayTrials, OfAnySizeAtAll) {
  EXPECT_TRUE(WayTrials(UINT64_MAX).of(UINT64_MAX).usual());
  EXPECT_TRUE(WayTrials(0).of(0).usual());
}

}  // namespace
}  // namespace floe
