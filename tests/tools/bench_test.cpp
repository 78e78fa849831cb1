#include <gmock/gmock.h>

#include "buffers.h"
#include "calls.h"
#include "ratios.h"

namespace floe::bench {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::SizeIs;

Statistics times(double p50, double p99) { return {p50, p50, p50, p99}; }

TEST(Statistics, AreNearestRanks) {
  std::vector<double> values(100);
  for (int i = 0; i < 100; ++i) values[i] = 100 - i;
  const Statistics s = statistics(values);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.p50, 51);
  EXPECT_EQ(s.mean, 50.5);
  EXPECT_EQ(s.p99, 99);
}

TEST(Summary, TakesTheFastestPeerOfEachSizeAndStatistic) {
  const std::vector<Comparison> sizes = {
      {8, times(1, 4), {{"a", times(2, 32)}, {"b", times(4, 16)}}},
      {1024, times(2, 8), {{"a", times(64, 4)}, {"b", times(16, 64)}}},
  };
  const Summary p50 = summarize(sizes, &Statistics::p50);
  EXPECT_THAT(p50.geometric_mean, DoubleNear(4, 1e-12));  // of 2 by a, and 8 by b
  EXPECT_EQ(p50.least, 2);
  EXPECT_EQ(p50.least_bytes, 8u);
  EXPECT_EQ(p50.least_peer, "a");
  const Summary p99 = summarize(sizes, &Statistics::p99);
  EXPECT_THAT(p99.geometric_mean, DoubleNear(std::sqrt(2), 1e-12));  // of 4 by b, and 0.5 by a
  EXPECT_EQ(p99.least, 0.5);
  EXPECT_EQ(p99.least_bytes, 1024u);
  EXPECT_EQ(p99.least_peer, "a");
}

// What an operation's result says, filled in from the ranks' inputs, must be free of errors; anything else
// must not.
TEST(Operations, ResultsAreWhatTheRanksSent) {
  constexpr uint32_t kRanks = 3;
  constexpr uint64_t kCount = 70;  // more than a run of the pattern
  const Pattern pattern(FLOE_INT32, kRanks);
  for (const Operation& op : operation_table()) {
    if (op.reduces || !op.moves()) continue;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const Call call{nullptr, nullptr, kCount, FLOE_INT32, rank, kRanks, false};
      const auto parts = op.result(call);
      std::vector<int32_t> recv(kCount * kRanks, -1), input(kCount * kRanks);
      for (const Part& part : parts) {
        pattern.fill(input.data(), input.size(), part.source, 5);
        std::copy_n(&input[part.from], part.count, &recv[part.at]);
      }
      EXPECT_EQ(pattern.errors(recv.data(), parts, 5), 0u) << op.name;
      if (parts.empty()) continue;
      recv[parts.back().at + parts.back().count - 1] += 1;
      EXPECT_EQ(pattern.errors(recv.data(), parts, 5), 1u) << op.name;
    }
  }
}

TEST(Operations, HaveTheirFormsInPlace) {
  EXPECT_TRUE(find_operation("all_reduce")->has_form(false));
  EXPECT_TRUE(find_operation("all_reduce")->has_form(true));
  EXPECT_FALSE(find_operation("broadcast")->has_form(false));
  EXPECT_TRUE(find_operation("broadcast")->has_form(true));
  EXPECT_TRUE(find_operation("barrier")->has_form(false));
  EXPECT_FALSE(find_operation("barrier")->has_form(true));
}

TEST(Buffers, LieAtTheOffsetAndInPlaceWhereFloeSays) {
  size_t heap_bytes = 0;
  const auto allocate = [&](size_t bytes) { return std::malloc(heap_bytes = bytes); };
  Buffers buffers({allocate, std::free});
  const auto at = [&](const char* op, uint32_t rank, Manner manner) {
    const Case what{find_operation(op), FLOE_FLOAT32, 1000, true, manner};
    return *buffers.prepare(what, rank, 4);
  };
  const auto distance = [](const void* from, const void* to) {
    return static_cast<const char*>(to) - static_cast<const char*>(from);
  };
  for (const bool heap : {false, true}) {
    const Manner manner{false, false, heap, 3};
    const Call gathered = at("all_gather", 2, manner);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(gathered.recv) % 4096, 3u);
    EXPECT_EQ(distance(gathered.recv, gathered.send), 2 * 4000);
    const Call scattered = at("reduce_scatter", 2, manner);
    EXPECT_EQ(distance(scattered.send, scattered.recv), 2 * 4000);
    const Call summed = at("all_reduce", 2, manner);
    EXPECT_EQ(summed.send, summed.recv);
    const Call elsewhere = at("gather", 2, manner);  // not the root: nothing of it is in place
    EXPECT_NE(elsewhere.send, elsewhere.recv);
    EXPECT_EQ(heap_bytes > 0, heap);
  }
}

// An all_reduce of one rank, whose call number `wrong` has a wrong result.
class Measure : public testing::Test {
 protected:
  bool run(int wrong, Timings& timings) {
    const Case what{find_operation("all_reduce"), FLOE_INT32, 8, false, {}};
    std::vector<int32_t> send(8), recv(8);
    const Call call{send.data(), recv.data(), 8, FLOE_INT32, 0, 1, false};
    calls_ = 0;
    const auto once = [&] {
      recv = send;
      if (++calls_ == wrong) ++recv[3];
      return true;
    };
    const auto meet = [&] {
      calls_before_meeting_ = calls_;
      return meets_;
    };
    return measure(what, call, Ticks(), 5, once, meet, timings);
  }
  uint64_t errors(int wrong) {
    Timings timings;
    EXPECT_TRUE(run(wrong, timings));
    return timings.errors;
  }

  int calls_ = 0, calls_before_meeting_ = 0;
  bool meets_ = true;
};

TEST_F(Measure, ChecksTheFirstAndTheLastCall) {
  EXPECT_EQ(errors(0), 0u);
  EXPECT_EQ(errors(1), 1u);
  EXPECT_EQ(errors(6), 1u);
}

// Which takes a while, and not as long on each rank.
TEST_F(Measure, TimesCallsOnceAllRanksHaveCheckedTheFirst) {
  Timings timings;
  EXPECT_TRUE(run(0, timings));
  EXPECT_EQ(calls_before_meeting_, 1);
  EXPECT_EQ(calls_, 6);
  EXPECT_THAT(timings.us, AllOf(SizeIs(5), Each(testing::Ge(0))));
}

TEST_F(Measure, EndsWhereRanksDoNotMeet) {
  meets_ = false;
  Timings timings;
  EXPECT_FALSE(run(0, timings));
  EXPECT_EQ(calls_, 1);
}

TEST(PlanCalls, FitsTheCallsAloneIntoTheBlock) {
  EXPECT_EQ(plan_calls(300, 33'000).counted, 110u);
  EXPECT_EQ(plan_calls(0.05, 33'000).counted, 100'000u);
  EXPECT_EQ(plan_calls(50'000, 33'000).counted, 4u);
}

// The first calls refill the caches after another library's block.
TEST(PlanCalls, LeavesTheFirstOnesOut) {
  EXPECT_EQ(plan_calls(0.05, 33'000).settling, 8u);
  EXPECT_EQ(plan_calls(300, 33'000).settling, 8u);
  EXPECT_EQ(plan_calls(5'000, 33'000).settling, 4u);
  EXPECT_EQ(plan_calls(50'000, 33'000).settling, 1u);
  EXPECT_EQ(plan_calls(300, 33'000).all(), 118u);
}

}  // namespace
}  // namespace floe::bench
