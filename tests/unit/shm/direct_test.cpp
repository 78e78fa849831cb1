// The direct collectives with ranks as threads on one mapping: what ThreadSanitizer can see.
#include "shm/direct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/types.h"

namespace floe {
namespace {

std::vector<std::shared_ptr<Segment>> make_segments(uint32_t ranks) {
  std::vector<std::shared_ptr<Segment>> segments;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto segment = Segment::create(ranks, rank, 1000 + rank);
    EXPECT_TRUE(segment.ok()) << segment.status().message();
    segments.push_back(*segment);
  }
  return segments;
}

Poll run(DirectAllReduce& op) {
  while (true) {
    const Poll poll = op.poll();
    if (poll == Poll::kDone || poll == Poll::kMismatch) return poll;
    if (poll == Poll::kPending) std::this_thread::yield();
  }
}

template <class F>
void on_ranks(uint32_t ranks, F&& body) {
  const auto segments = make_segments(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      DirectPath path(segments, rank);
      body(path, rank);
    });
  for (auto& thread : threads) thread.join();
}

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
      auto op = path.all_reduce(
          {in_place ? recv.data() : send.data(), recv.data(), count, FLOE_INT32, FLOE_SUM, 5});
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
    const uint64_t small = SmallAllReduce::max_bytes(ranks) / sizeof(int32_t);
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

// Small and large operations use different slots; alternating them must not confuse either.
TEST(Direct, SmallAndLargeAlternate) {
  on_ranks(3, [](DirectPath& path, uint32_t rank) {
    for (int round = 0; round < 60; ++round) {
      const uint64_t count = round % 3 == 0 ? 4 : 40000;
      std::vector<int32_t> data(count, static_cast<int32_t>(rank + round));
      auto op = path.all_reduce({data.data(), data.data(), count, FLOE_INT32, FLOE_SUM, 5});
      ASSERT_EQ(run(op), Poll::kDone);
      EXPECT_THAT(data, testing::Each(3 + 3 * round));
    }
  });
}

// A collective whose hash differs from a peer's never exchanges data, small or large.
TEST(Direct, DifferentHashesAreAMismatchOnBothSides) {
  for (const uint64_t count : {uint64_t{2}, uint64_t{100000}})
    on_ranks(2, [count](DirectPath& path, uint32_t rank) {
      std::vector<int32_t> data(count, 1);
      auto op = path.all_reduce({data.data(), data.data(), count, FLOE_INT32, FLOE_SUM, 5 + rank});
      EXPECT_EQ(run(op), Poll::kMismatch);
      EXPECT_EQ(op.mismatch_with(), 1 - rank);
      EXPECT_THAT(data, testing::Each(1));
    });
}

TEST(Direct, WaitsForNamesTheRankThatIsMissing) {
  const auto segments = make_segments(3);
  DirectPath first(segments, 0), second(segments, 1);
  std::vector<int32_t> data(100000, 1);
  auto mine = first.all_reduce({data.data(), data.data(), data.size(), FLOE_INT32, FLOE_SUM, 5});
  std::vector<int32_t> other(100000, 1);
  auto theirs = second.all_reduce({other.data(), other.data(), other.size(), FLOE_INT32, FLOE_SUM, 5});
  for (int i = 0; i < 10; ++i) {
    mine.poll();
    theirs.poll();
  }
  EXPECT_FALSE(mine.waits_for(1));
  EXPECT_TRUE(mine.waits_for(2));
}

}  // namespace
}  // namespace floe
