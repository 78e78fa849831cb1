// The direct collectives with ranks as threads on one mapping: what ThreadSanitizer can see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <tuple>

#include "direct_fixture.h"

namespace floe {
namespace {

struct Case {
  uint32_t ranks;
  uint64_t count;
};

class DirectAllReduceTest : public testing::TestWithParam<Case> {};

// Data change with every round, so a slot that is reused too early, or read too late, shows.
TEST_P(DirectAllReduceTest, SumsBackToBack) {
  const auto [ranks, count] = GetParam();
  const uint64_t bytes = count * sizeof(int32_t);
  const int rounds = bytes > (1 << 20) ? 3 : 50;
  on_ranks(ranks, [&, ranks = ranks, count = count](DirectPath& path, uint32_t rank) {
    std::vector<int32_t> send(count), recv(count);
    for (int round = 0; round < rounds; ++round) {
      for (uint64_t i = 0; i < count; ++i) send[i] = static_cast<int32_t>(rank * 1000 + round * 7 + i % 997);
      const bool in_place = round % 2 == 1;
      if (in_place) recv = send;
      auto op = path.make({pattern::kAllReduce, in_place ? recv.data() : send.data(), recv.data(), count,
                           FLOE_INT32, FLOE_SUM, 0, 5});
      ASSERT_EQ(run(op), Poll::kDone);
      for (uint64_t i = 0; i < count; ++i) {
        const auto sum = static_cast<int32_t>(1000 * ranks * (ranks - 1) / 2 + ranks * (round * 7 + i % 997));
        ASSERT_EQ(recv[i], sum) << "round " << round << " element " << i;
      }
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const uint32_t ranks : {2, 3, 4, 8}) {
    const uint64_t small = std::max<uint64_t>(1024 / (ranks - 1), 64) / sizeof(int32_t);
    const uint64_t chunk = SegmentLayout(ranks).block_bytes * ranks / sizeof(int32_t);
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{13}, small, small + 1, uint64_t{5000},
                                 chunk, chunk + 1, 3 * chunk - 5})
      list.push_back({ranks, count});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Sizes, DirectAllReduceTest, testing::ValuesIn(cases()), [](const auto& info) {
  return fmt::format("{}Ranks{}Elements", info.param.ranks, info.param.count);
});

class DirectPatterns : public testing::TestWithParam<std::tuple<Collective, uint32_t>> {};

// What the cost model never chooses here must be right, too: another machine's may.
TEST_P(DirectPatterns, MoveWhatTheyShouldByEveryProtocol) {
  const auto& [collective, ranks] = GetParam();
  for (const Protocol protocol : kProtocols)
    on_ranks(
        ranks,
        [&, ranks = ranks](DirectPath& path, uint32_t) {
          for (const uint64_t count :
               {0, 1, 14, 15, 17, 256, 257, 1008, 1009, 1022, 1023, 4095, 4096, 4097, 20'000})
            for (uint32_t root = 0; root < ranks; ++root)
              ASSERT_NO_FATAL_FAILURE(check(path, collective.pattern, root, count, static_cast<int>(root)));
        },
        only(protocol));
}

TEST_P(DirectPatterns, MoveWhatTheyShould) {
  const auto& [collective, ranks] = GetParam();
  on_ranks(ranks, [&, ranks = ranks](DirectPath& path, uint32_t) {
    // Around the edges of the protocols.
    for (const uint64_t count : {0, 1, 200, 255, 256, 257, 5000, 8192, 8193, 16384, 16385})
      for (uint32_t root = 0; root < ranks; ++root)
        ASSERT_NO_FATAL_FAILURE(check(path, collective.pattern, root, count, static_cast<int>(root)));
    constexpr uint64_t kRoundTheOutbox = 600'000;
    const uint32_t roots = collective.pattern.exchanges() ? 2 : ranks;  // where there is none: twice
    for (uint32_t root = 0; root < roots; ++root)
      ASSERT_NO_FATAL_FAILURE(check(path, collective.pattern, root, kRoundTheOutbox, static_cast<int>(root)));
    constexpr uint64_t kManyChunks = 1'100'000;
    if (ranks == 2) {
      ASSERT_NO_FATAL_FAILURE(check(path, collective.pattern, 0, kManyChunks, 9));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, DirectPatterns,
                         testing::Combine(testing::ValuesIn(kCollectives), testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           return fmt::format("{}On{}", std::get<0>(info.param).name,
                                              std::get<1>(info.param));
                         });

// One after the other without a pause, of all kinds and sizes: places and flags are taken again and again.
TEST(Direct, AnyPatternFollowsAnyOther) {
  for (const uint32_t ranks : {2, 3, 4})
    on_ranks(ranks, [](DirectPath& path, uint32_t) {
      std::mt19937_64 random(20261121);  // the same on all ranks
      for (int round = 0; round < 600; ++round) {
        const Pattern pattern = kCollectives[random() % std::size(kCollectives)].pattern;
        const auto root = static_cast<uint32_t>(random() % path.ranks());
        const uint64_t count = random() % (uint64_t{1} << random() % 18);
        ASSERT_NO_FATAL_FAILURE(check(path, pattern, root, count, round));
      }
    });
}

// In slots alone: what two ranks exchange in buffers, among what goes one way and may be ahead.
TEST(Direct, AnySmallPatternFollowsAnyOther) {
  for (const uint32_t ranks : {2, 3})
    on_ranks(
        ranks,
        [](DirectPath& path, uint32_t) {
          std::mt19937_64 random(20261124);
          for (int round = 0; round < 3000; ++round) {
            const Pattern pattern = kCollectives[random() % std::size(kCollectives)].pattern;
            const auto root = static_cast<uint32_t>(random() % path.ranks());
            const uint64_t count = random() % (uint64_t{1} << random() % 13);
            ASSERT_NO_FATAL_FAILURE(check(path, pattern, root, count, round));
          }
        },
        only(Protocol::kSmall));
}

// Large ones alone, which may leave a rank behind: two ranks' blocks and outboxes lie in the same memory.
TEST(Direct, AnyLargePatternFollowsAnyOther) {
  for (const uint32_t ranks : {2, 3})
    on_ranks(ranks, [](DirectPath& path, uint32_t) {
      std::mt19937_64 random(20261128);
      for (int round = 0; round < 200; ++round) {
        const Pattern pattern = kCollectives[random() % std::size(kCollectives)].pattern;
        const auto root = static_cast<uint32_t>(random() % path.ranks());
        const uint64_t count = (uint64_t{16} << 10) + random() % (uint64_t{1} << 14 << random() % 5);
        ASSERT_NO_FATAL_FAILURE(check(path, pattern, root, count, round));
      }
    });
}

// Small and large operations use different slots; alternating them must not confuse either.
TEST(Direct, SmallAndLargeAlternate) {
  on_ranks(3, [](DirectPath& path, uint32_t rank) {
    for (int round = 0; round < 60; ++round) {
      const uint64_t count = round % 3 == 0 ? 4 : 40000;
      std::vector<int32_t> data(count, static_cast<int32_t>(rank + round));
      auto op = path.make({pattern::kAllReduce, data.data(), data.data(), count, FLOE_INT32, FLOE_SUM, 0, 5});
      ASSERT_EQ(run(op), Poll::kDone);
      EXPECT_THAT(data, testing::Each(3 + 3 * round));
    }
  });
}

// A collective whose hash differs from a peer's never exchanges data, small or large.
TEST(Direct, DifferentHashesAreAMismatchOnBothSides) {
  for (const Pattern& pattern : {pattern::kAllReduce, pattern::kAllToAll})
    for (const uint64_t count : {uint64_t{2}, uint64_t{100000}})
      on_ranks(2, [&](DirectPath& path, uint32_t rank) {
        const auto mine = static_cast<int32_t>(rank);
        std::vector<int32_t> data(2 * count, mine);
        auto op = path.make({pattern, data.data(), data.data(), count, FLOE_INT32, FLOE_SUM, 0, 5 + rank});
        EXPECT_EQ(run(op), Poll::kMismatch);
        EXPECT_EQ(op.mismatch_with(), 1 - rank);
        EXPECT_THAT(data, testing::Each(mine));
      });
}

TEST(Direct, WaitsForNamesTheRankThatIsMissing) {
  const auto segments = make_segments(3);
  const Choices choices(3);
  DirectPath first(segments, 0, choices), second(segments, 1, choices);
  constexpr uint64_t kCount = 100000;
  for (const Pattern& pattern : {pattern::kAllReduce, pattern::kAllToAll}) {
    std::vector<int32_t> data(3 * kCount, 1), other(3 * kCount, 1);
    auto mine = first.make({pattern, data.data(), data.data(), kCount, FLOE_INT32, FLOE_SUM, 0, 5});
    auto theirs = second.make({pattern, other.data(), other.data(), kCount, FLOE_INT32, FLOE_SUM, 0, 5});
    for (int i = 0; i < 10; ++i) {
      mine.poll();
      theirs.poll();
    }
    EXPECT_FALSE(mine.waits_for(1));
    EXPECT_TRUE(mine.waits_for(2));
  }
}

}  // namespace
}  // namespace floe
