// What goes one way through outboxes: where chunks lie, and who waits for whom.
#include "shm/stream.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "direct_fixture.h"

namespace floe {
namespace {

// Where a chunk lies is a matter of arithmetic alone: no chunk wraps, none overlaps one of the last lap.
TEST(StreamLayout, ChunksFollowOneAnotherAndDoNotWrap) {
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

// A root that may not go on waits for the rank that is behind alone, whatever it has last heard of the
// others.
TEST(Stream, WaitsForRoomOfTheRankThatIsBehind) {
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
TEST(Stream, TwoRanksStayClose) {
  constexpr uint64_t kChunk = (64 << 10) / sizeof(int32_t);
  for (const uint64_t chunks : {3, 4}) {
    const auto segments = make_segments(2);
    const Choices choices(*CostModel::create(only(Protocol::kStream)), {2});
    DirectPath root(segments, 0, choices), reader(segments, 1, choices);
    std::vector<int32_t> data(chunks * kChunk, 7), received(data.size());
    std::vector<int32_t> next(kChunk, 8), next_received(next.size());
    const auto broadcast = [&](DirectPath& path, std::vector<int32_t>& buffer) {
      return path.make(
          {pattern::kBroadcast, buffer.data(), buffer.data(), buffer.size(), FLOE_INT32, 0, 0, 5});
    };
    const auto ends = [](DirectOperation& operation) {
      Poll poll = Poll::kMoved;
      for (int i = 0; i < 100 && poll != Poll::kDone; ++i) poll = operation.poll();
      return poll == Poll::kDone;
    };
    auto given = broadcast(root, data);
    EXPECT_TRUE(ends(given)) << chunks;
    auto next_given = broadcast(root, next);
    const bool ended = ends(next_given);
    EXPECT_EQ(ended, chunks == 3);  // 256 KiB in all; else the reader must have taken one
    auto taken = broadcast(reader, received);
    EXPECT_TRUE(ends(taken));
    EXPECT_TRUE(ended || ends(next_given));
    auto next_taken = broadcast(reader, next_received);
    EXPECT_TRUE(ends(next_taken));
    EXPECT_EQ(received, data);
    EXPECT_EQ(next_received, next);
  }
}

// Of two ranks, who gives does not take the place of what the other one has not read back; and who puts
// blocks does not take that of what it gave.
TEST(Stream, TakesNoPlaceOfBlocksThatAreStillReadNorTheyItsOwn) {
  const uint64_t count = SegmentLayout(2).blocks_bytes() / sizeof(int32_t);  // all of the blocks
  const auto segments = make_segments(2);
  const Choices choices(2);
  DirectPath first(segments, 0, choices), second(segments, 1, choices);
  const auto all_reduce = [&](DirectPath& path, std::vector<int32_t>& buffer) {
    return path.make({pattern::kAllReduce, buffer.data(), buffer.data(), count, FLOE_INT32, FLOE_SUM, 0, 5});
  };
  const auto broadcast = [&](DirectPath& path, std::vector<int32_t>& buffer) {
    return path.make({pattern::kBroadcast, buffer.data(), buffer.data(), count, FLOE_INT32, 0, 0, 5});
  };
  const std::vector<int32_t> sum(count, 3), given(count, 7);

  // Both are made before the first one has begun, as calls that nobody waits for are.
  std::vector<int32_t> ones(count, 1), twos(count, 2), gives(given), takes(count);
  auto reduce = all_reduce(first, ones), other_reduce = all_reduce(second, twos);
  auto give = broadcast(first, gives), take = broadcast(second, takes);
  EXPECT_EQ(reduce.poll(), Poll::kMoved);
  EXPECT_EQ(other_reduce.poll(), Poll::kMoved);  // has put and answered
  EXPECT_EQ(reduce.poll(), Poll::kDone);
  EXPECT_EQ(ones, sum);
  EXPECT_EQ(give.poll(), Poll::kMoved);  // has told the other one
  EXPECT_EQ(give.poll(), Poll::kPending);
  EXPECT_TRUE(give.waits_for(1));
  EXPECT_FALSE(give.waits_for(0));
  EXPECT_EQ(other_reduce.poll(), Poll::kDone);
  EXPECT_EQ(twos, sum);

  take.poll();
  EXPECT_EQ(run(give), Poll::kDone);
  std::vector<int32_t> more(count, 1), other(count, 2);
  auto again = all_reduce(first, more), other_again = all_reduce(second, other);
  EXPECT_EQ(again.poll(), Poll::kMoved);
  EXPECT_EQ(run(take), Poll::kDone);
  EXPECT_EQ(takes, given);
  EXPECT_EQ(other_again.poll(), Poll::kMoved);
  EXPECT_EQ(run(again), Poll::kDone);
  EXPECT_EQ(run(other_again), Poll::kDone);
  EXPECT_EQ(more, sum);
  EXPECT_EQ(other, sum);
}

}  // namespace
}  // namespace floe
