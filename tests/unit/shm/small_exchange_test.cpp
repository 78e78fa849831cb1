#include "shm/small_exchange.h"

#include <gtest/gtest.h>

#include "direct_fixture.h"

namespace floe {
namespace {

// Two ranks in one thread, in whatever turn they have come to.
class SmallExchangeTest : public testing::Test {
 protected:
  explicit SmallExchangeTest(uint64_t turn = 0) {
    for (SmallExchange::State* state : {&root_state_, &other_state_}) {
      state->turn = turn;
      state->seen = {turn, turn};
    }
  }
  SmallExchange root(const Pattern& pattern, uint64_t count) {
    return {root_, root_state_, args(pattern, count, sent_)};
  }
  SmallExchange other(const Pattern& pattern, uint64_t count) {
    return {other_, other_state_, args(pattern, count, kept_)};
  }

  std::vector<int32_t> sent_ = std::vector<int32_t>(64, 7), kept_ = std::vector<int32_t>(64, 0);

 private:
  // What a call is hashed from, as far as calls differ here.
  static DirectArgs args(const Pattern& pattern, uint64_t count, std::vector<int32_t>& data) {
    const uint32_t hash = static_cast<uint32_t>(count) << 1 | (pattern.exchanges() ? 1 : 0);
    return {pattern, data.data(), data.data(), count, FLOE_INT32, FLOE_SUM, 0, hash};
  }

  std::vector<std::shared_ptr<Segment>> segments_ = make_segments(2);
  LocalRanks root_{segments_, 0}, other_{segments_, 1};
  SmallExchange::State root_state_{2}, other_state_{2};
};

// Each size has a kind of slot of its own, and what exchanges another one yet.
TEST_F(SmallExchangeTest, WhoHasPublishedInASlotOfAnotherKindIsAMismatchAtOnce) {
  const std::pair<Pattern, uint64_t> calls[] = {{pattern::kBroadcast, 2},
                                                {pattern::kBroadcast, 10},
                                                {pattern::kBroadcast, 40},
                                                {pattern::kAllReduce, 2}};
  for (const auto& [theirs, their_count] : calls)
    for (const auto& [mine, my_count] : calls) {
      SmallExchange root = this->root(theirs, their_count), other = this->other(mine, my_count);
      EXPECT_EQ(other.poll(), Poll::kMoved);
      EXPECT_TRUE(other.waits_for(0));
      root.poll();
      EXPECT_FALSE(other.waits_for(0));
      const bool same = theirs == mine && their_count == my_count;
      EXPECT_EQ(other.poll(), same ? Poll::kDone : Poll::kMismatch) << their_count << " for " << my_count;
      EXPECT_EQ(kept_[0], same ? 7 : 0);
      kept_.assign(64, 0);
    }
}

// A kind of slot that has not been used for longer than half of a flag's counter lasts.
class LongAfter : public SmallExchangeTest {
 protected:
  LongAfter() : SmallExchangeTest((uint64_t{1} << (Flag::kCounterBits - 1)) + 1000) {}
};

TEST_F(LongAfter, WhatIsInASlotIsNotTakenForALaterTurn) {
  for (const uint64_t count : {2, 10, 40}) {
    SmallExchange other = this->other(pattern::kBroadcast, count),
                  root = this->root(pattern::kBroadcast, count);
    EXPECT_EQ(other.poll(), Poll::kMoved);
    EXPECT_EQ(other.poll(), Poll::kPending) << count;
    EXPECT_TRUE(other.waits_for(0));
    EXPECT_EQ(root.poll(), Poll::kDone);
    EXPECT_EQ(other.poll(), Poll::kDone);
  }
}

TEST_F(LongAfter, NobodyIsTooFarAhead) {
  for (const uint64_t count : {2, 10, 40}) {
    uint32_t ahead = 0;
    for (; ahead < 2 * SegmentLayout::kSmallSlots; ++ahead) {
      SmallExchange root = this->root(pattern::kBroadcast, count);
      if (root.poll() != Poll::kDone) break;
    }
    EXPECT_EQ(ahead, SegmentLayout::kSmallSlots - 1);
    for (uint32_t turn = 0; turn < ahead; ++turn) {
      SmallExchange other = this->other(pattern::kBroadcast, count);
      EXPECT_EQ(other.poll(), Poll::kDone) << turn;
    }
  }
}

}  // namespace
}  // namespace floe
