// The direct collectives with ranks as threads on one mapping: what ThreadSanitizer can see.
#include "shm/direct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <thread>
#include <tuple>

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

Poll run(DirectOperation& op) {
  while (true) {
    const Poll poll = op.poll();
    if (poll == Poll::kDone || poll == Poll::kMismatch) return poll;
    if (poll == Poll::kPending) std::this_thread::yield();
  }
}

// So that most results stay in the cache, and the largest ones don't.
constexpr uint64_t kCacheBytes = 100'000;

template <class F>
void on_ranks(uint32_t ranks, F&& body, std::string_view cost_model = "") {
  const auto segments = make_segments(ranks);
  const Choices choices(*CostModel::create(cost_model), {ranks});
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      DirectPath path(segments, rank, choices, {}, kCacheBytes);
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

// ---- Every pattern ---------------------------------------------------------------------------------------

struct Collective {
  const char* name;
  Pattern pattern;
};
constexpr Collective kCollectives[] = {{"AllReduce", pattern::kAllReduce},
                                       {"Reduce", pattern::kReduce},
                                       {"ReduceScatter", pattern::kReduceScatter},
                                       {"Broadcast", pattern::kBroadcast},
                                       {"AllGather", pattern::kAllGather},
                                       {"Gather", pattern::kGather},
                                       {"Scatter", pattern::kScatter},
                                       {"AllToAll", pattern::kAllToAll}};

// Element i of the block that `from` has for `to` in a round.
int32_t value(uint32_t from, uint32_t to, int round, uint64_t i) {
  return static_cast<int32_t>(from * 100'000 + to * 10'000 + static_cast<uint32_t>(round) * 131 + i % 4099);
}

// What rank `self` has to find in its receive buffer, block by block; no block where it gets nothing.
class Expected {
 public:
  Expected(Pattern pattern, uint32_t ranks, uint32_t self, uint32_t root)
      : pattern_(pattern), ranks_(ranks), self_(self), root_(root) {}
  bool is(Pattern::Ranks set, uint32_t rank) const {
    return set == Pattern::Ranks::kAll || (set == Pattern::Ranks::kRoot) == (rank == root_);
  }
  bool gets() const {
    const bool own = pattern_.block_each && is(pattern_.publish, self_) && !pattern_.reduces;
    return own || is(pattern_.read, self_);
  }
  uint32_t blocks() const {
    return pattern_.reduces || pattern_.publish == Pattern::Ranks::kRoot ? 1 : ranks_;
  }
  int32_t at(uint32_t block, int round, uint64_t i) const {
    const uint32_t to = pattern_.block_each ? self_ : 0;
    if (!pattern_.reduces)
      return value(pattern_.publish == Pattern::Ranks::kRoot ? root_ : block, to, round, i);
    int32_t sum = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) sum += value(rank, to, round, i);
    return sum;
  }

 private:
  Pattern pattern_;
  uint32_t ranks_, self_, root_;
};

// One collective on this rank, with data that no other round has.
void check(DirectPath& path, Pattern pattern, uint32_t root, uint64_t count, int round) {
  const uint32_t self = path.self(), ranks = path.ranks();
  const Expected expected(pattern, ranks, self, root);
  std::vector<int32_t> send(count * ranks), recv(count * ranks, -1), wanted(recv);
  for (uint32_t to = 0; to < (pattern.block_each ? ranks : 1); ++to)
    for (uint64_t i = 0; i < count; ++i) send[to * count + i] = value(self, to, round, i);
  for (uint32_t block = 0; expected.gets() && block < expected.blocks(); ++block)
    for (uint64_t i = 0; i < count; ++i) wanted[block * count + i] = expected.at(block, round, i);
  auto op = path.make({pattern, send.data(), recv.data(), count, FLOE_INT32, FLOE_SUM, root, 9});
  ASSERT_EQ(run(op), Poll::kDone);
  const auto [wrong, right] = std::mismatch(recv.begin(), recv.end(), wanted.begin());
  ASSERT_EQ(wrong, recv.end()) << "rank " << self << " root " << root << " round " << round << " element "
                               << wrong - recv.begin() << " of " << ranks << " x " << count << ": " << *wrong
                               << " for " << *right;
}

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

// Where a chunk lies is a matter of arithmetic alone: no chunk wraps, none overlaps one of the last lap.
TEST(StreamLayoutTest, ChunksFollowOneAnotherAndDoNotWrap) {
  constexpr uint64_t kCapacity = 1000;
  for (const uint64_t begin : {0, 1, 500, 999, 1000, 12345})
    for (const uint64_t bytes : {1, 7, 250, 333, 600, 1000}) {
      const StreamLayout layout(begin, bytes, kCapacity);
      uint64_t last_end = begin;
      for (uint64_t chunk = 0; chunk < 3000; ++chunk) {
        const uint64_t at = layout.at(chunk);
        ASSERT_GE(at, last_end);
        ASSERT_LT(at - last_end, std::max(bytes, uint64_t{1}) + (chunk == 0 ? kCapacity : 0));
        ASSERT_LE(at % kCapacity + bytes, kCapacity);
        last_end = at + bytes;
        ASSERT_EQ(layout.end(chunk + 1), last_end);
      }
    }
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

// A root that may not go on waits for the rank that is behind alone, whatever it has last heard of the
// others.
TEST(Direct, WaitsForRoomOfTheRankThatIsBehind) {
  for (const uint64_t count : {uint64_t{4}, uint64_t{1'000'000}}) {
    const auto segments = make_segments(3);
    const Choices choices(3);
    DirectPath root(segments, 0, choices), behind(segments, 1, choices), reader(segments, 2, choices);
    std::vector<int32_t> data(count, 1), received(count);
    const auto broadcast = [&](DirectPath& path, std::vector<int32_t>& buffer) {
      return path.make({pattern::kBroadcast, buffer.data(), buffer.data(), count, FLOE_INT32, 0, 0, 5});
    };
    bool stopped = false;
    for (int turn = 0; turn < 40 && !stopped; ++turn) {
      auto given = broadcast(root, data), taken = broadcast(reader, received);
      bool given_done = false, taken_done = false;
      for (int i = 0; i < 1000 && !(given_done && taken_done); ++i) {
        given_done = given_done || given.poll() == Poll::kDone;
        taken_done = taken_done || taken.poll() == Poll::kDone;
      }
      stopped = !given_done;
      if (!stopped) continue;
      EXPECT_TRUE(given.waits_for(1));
      EXPECT_FALSE(given.waits_for(2));
    }
    EXPECT_TRUE(stopped) << "nobody waits for the rank that never came";
  }
}

// Of two ranks, who gives is not far ahead of who takes: it would overwrite what has just been read.
TEST(Direct, TwoRanksStayCloseInAStream) {
  constexpr uint64_t kChunk = (64 << 10) / sizeof(int32_t);
  for (const uint64_t chunks : {3, 4}) {
    const auto segments = make_segments(2);
    const Choices choices(*CostModel::create(only(Protocol::kStream)), {2});
    DirectPath root(segments, 0, choices), reader(segments, 1, choices);
    std::vector<int32_t> data(chunks * kChunk, 7), received(data.size());
    const auto broadcast = [&](DirectPath& path, std::vector<int32_t>& buffer) {
      return path.make(
          {pattern::kBroadcast, buffer.data(), buffer.data(), buffer.size(), FLOE_INT32, 0, 0, 5});
    };
    auto given = broadcast(root, data);
    Poll poll = Poll::kMoved;
    for (int i = 0; i < 100 && poll != Poll::kDone; ++i) poll = given.poll();
    EXPECT_EQ(poll == Poll::kDone, chunks == 3);
    auto taken = broadcast(reader, received);
    bool done = false;
    for (int i = 0; i < 100 && !done; ++i) {
      if (poll != Poll::kDone) poll = given.poll();
      done = taken.poll() == Poll::kDone;
    }
    EXPECT_TRUE(done);
    EXPECT_EQ(received, data);
  }
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
