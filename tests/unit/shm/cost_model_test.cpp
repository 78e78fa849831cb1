#include "shm/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "shm/explain.h"
#include "shm/segment.h"

namespace floe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CostModel model_of(std::string_view text) {
  const auto model = CostModel::create(text);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return *model;
}

// Integers are rounded down: a limit is exact to a byte, and times near it to a few ps.
void expect_no_faster_one(const Cost& cost, uint64_t bytes) {
  const Protocol chosen = choose(cost).at(bytes);
  ASSERT_LE(bytes, cost.most(chosen)) << name_of(chosen);
  for (const Protocol other : kProtocols) {
    if (bytes > cost.most(other)) continue;
    EXPECT_LE(cost.ns(chosen, bytes), cost.ns(other, bytes) * 1.001 + 1)
        << name_of(chosen) << " for " << name_of(other) << " at " << bytes;
  }
}

uint64_t small_most(const SizeRanges& choice) {
  EXPECT_EQ(choice.ranges[0].protocol, Protocol::kSmall);
  return choice.ranges[0].most;
}

class EveryPattern : public testing::TestWithParam<NamedPattern> {};

// Whatever the coefficients, but that the small one starts soonest: down to the bytes beside each limit.
TEST_P(EveryPattern, UsesTheCheapestProtocolAtEverySize) {
  std::mt19937_64 random(20261121);
  const auto below = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  for (int round = 0; round < 500; ++round) {
    Coefficients c = {below(300'000),
                      below(5'000'000),
                      {below(200'000), below(500'000)},
                      {below(200'000), below(500'000)},
                      {below(200'000), below(500'000)},
                      {below(200'000), below(500'000)}};
    c.small.start = std::min({c.small.start, c.stream.start, c.return_line.start, c.exchange.start});
    const Surroundings where{static_cast<uint32_t>(2 + random() % 30),
                             static_cast<uint32_t>(1 + random() % 4)};
    const Cost cost(c, where, GetParam().pattern);
    const SizeRanges ranges = choose(cost);
    EXPECT_EQ(ranges.at(0), Protocol::kSmall);  // the only one that lets ranks meet without bytes
    for (const SizeRanges::Range& range : ranges.ranges)
      for (const uint64_t bytes : {range.most - 1, range.most, range.most + 1})
        if (bytes > 0 && bytes < uint64_t{1} << 30) expect_no_faster_one(cost, bytes);
    for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 2) expect_no_faster_one(cost, bytes);
  }
}

// The limits only take the place of the model in the fast path.
TEST_P(EveryPattern, HasThoseRangesInTheTable) {
  const CostModel model = model_of("");
  const Surroundings where{3};
  const Choices choices(model, where);
  const SizeRanges ranges = choose(Cost(model.at(where), where, GetParam().pattern));
  for (uint64_t bytes = 0; bytes < 1 << 16; bytes = bytes * 5 / 4 + 1)
    EXPECT_EQ(choices[GetParam().pattern].at(bytes), ranges.at(bytes)) << bytes;
}

TEST_P(EveryPattern, FitsIntoASmallSlot) {
  for (const uint32_t ranks : {2, 3, 16, 64, 600}) {
    const Surroundings where{ranks};
    const Choices choices(model_of("stream=1000000,return_line=1000000,exchange=1000000"), where);
    const uint64_t most = small_most(choices[GetParam().pattern]);
    const uint64_t blocks = GetParam().pattern.block_each ? ranks - 1 : 1;
    const bool exchanged = ranks == 2 && GetParam().pattern.exchanges();
    const uint64_t room = exchanged ? SegmentLayout::kExchangeBytes : SegmentLayout::kSmallDataBytes;
    EXPECT_LE(most * blocks, room);
    EXPECT_GT((most + 1) * blocks, room) << "room is left";
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPattern, testing::ValuesIn(kPatterns),
                         [](const auto& info) { return std::string(info.param.name); });

// No order of the coefficients leaves out a protocol that is the fastest almost everywhere.
TEST(CostModel, TakesTheSmallProtocolWhereItPaysThoughItStartsLate) {
  const Surroundings where{3};
  const auto limits = [&](const char* text) {
    return choose(Cost(model_of(text).at(where), where, pattern::kAllGather));
  };
  EXPECT_EQ(small_most(limits("small=1,small_kib=10,stream=0,stream_kib=20")),
            SegmentLayout::kSmallDataBytes);
  EXPECT_EQ(small_most(limits("small=1000,small_kib=10,stream=0,stream_kib=20")), 0u);
}

TEST(CostModel, LeavesTheBarrierToTheSmallProtocol) {
  for (const char* text : {"", "small=1000000,small_kib=1000000"})
    EXPECT_EQ(Choices(model_of(text), {2})[pattern::kBarrier].at(0), Protocol::kSmall);
}

// Every slot is read by every rank in the one, 1/n of it in the other.
TEST(CostModel, SmallAllReducesEndEarlierWithMoreRanks) {
  uint64_t last = UINT64_MAX;
  for (uint32_t ranks = 2; ranks <= 64; ++ranks) {
    const uint64_t most = small_most(Choices(model_of(""), {ranks})[pattern::kAllReduce]);
    EXPECT_LE(most, last) << ranks;
    last = most;
  }
  EXPECT_GE(last, 56u);  // what comes with the flag
}

TEST(CostModel, ARootAddsByItselfForFewRanksOnly) {
  constexpr uint64_t kLarge = 16 << 20;
  EXPECT_EQ(Choices(model_of(""), {2})[pattern::kReduce].at(kLarge), Protocol::kStream);
  EXPECT_EQ(Choices(model_of(""), {16})[pattern::kReduce].at(kLarge), Protocol::kReturnLine);
  EXPECT_EQ(Choices(model_of(""), {16})[pattern::kAllReduce].at(kLarge), Protocol::kReturnLine);
}

TEST(CostModel, ExchangesWhatGoesBetweenAllPairs) {
  for (const auto& [ranks, pattern] : {std::pair{2, pattern::kAllGather},
                                       {2, pattern::kAllToAll},
                                       {5, pattern::kAllToAll},
                                       {2, pattern::kReduceScatter},
                                       {5, pattern::kReduceScatter}}) {
    const SizeRanges choice = Choices(model_of(""), {static_cast<uint32_t>(ranks)})[pattern];
    EXPECT_EQ(choice.at(64 << 10), Protocol::kExchange);
    EXPECT_EQ(choice.at(uint64_t{1} << 40), Protocol::kExchange);
  }
  EXPECT_EQ(Choices(model_of(""), {2})[pattern::kAllReduce].at(64 << 10), Protocol::kReturnLine);
  EXPECT_EQ(Choices(model_of(""), {3})[pattern::kAllGather].at(64 << 10), Protocol::kStream);
}

// To wait once instead of twice counts for more when each means that all ranks of a CPU get it in turn.
TEST(CostModel, WaitsLessWhereRanksShareACpu) {
  const auto at = [](uint32_t ranks, uint32_t sharing, uint64_t bytes) {
    return Choices(model_of(""), {ranks, sharing})[pattern::kAllReduce].at(bytes);
  };
  for (const auto& [ranks, sharing] : {std::pair{4, 2}, {3, 2}, {6, 3}}) {
    EXPECT_EQ(at(ranks, 1, 8 << 10), Protocol::kReturnLine) << ranks;
    EXPECT_EQ(at(ranks, sharing, 8 << 10), Protocol::kStream) << ranks;
    EXPECT_EQ(at(ranks, sharing, 64 << 10), Protocol::kReturnLine) << ranks;
  }
}

// Those that only publish need not wait for the root, which alone has most to do: its CPU, not all of them.
// The return line makes up for that with large blocks.
TEST(CostModel, LeavesTheRootToAddWhereRanksShareACpu) {
  for (const uint64_t bytes : {16 << 10, 64 << 10, 128 << 10})
    for (const auto& [ranks, sharing] : {std::pair{4, 2}, {8, 4}})
      EXPECT_EQ(Choices(model_of(""),
                        {static_cast<uint32_t>(ranks), static_cast<uint32_t>(sharing)})[pattern::kReduce]
                    .at(bytes),
                Protocol::kStream)
          << ranks << " of " << bytes;
}

TEST(CostModel, TakesLongerAcrossCachesAndNodes) {
  const CostModel model = model_of("");
  const Coefficients near = model.at({2}), far = model.at({2, 1, false});
  const Coefficients remote = model.at({2, 1, false, 210});
  EXPECT_LT(near.flag, far.flag);
  EXPECT_EQ(remote.flag, far.flag * 210 / 100);
  EXPECT_EQ(remote.stream.kib, far.stream.kib * 210 / 100);
  EXPECT_EQ(remote.stream.start, far.stream.start);
}

TEST(CostModel, TakesWhatIsGivenWhereverTheRanksRun) {
  const CostModel model = model_of("flag=12.5,return_line_kib=7");
  for (const uint32_t percent : {100, 320}) {
    EXPECT_EQ(model.at({2, 1, false, percent}).flag, 12'500);
    EXPECT_EQ(model.at({2, 1, false, percent}).return_line.kib, 7'000);
  }
  EXPECT_NE(model.text(), model_of("").text());
  EXPECT_NE(model.text(), model_of("flag=12.5").text());
}

TEST(CostModel, IsWrittenAsItIsRead) {
  const std::string text = model_of("").at({2}).text();
  EXPECT_EQ(model_of(text).at({8, 1, false}).text(), text);
}

TEST(CostModel, RefusesAnythingElseAndListsTheNames) {
  for (const char* text : {"flag", "flag=", "flag=x", "flag=-1", "flag=nan", "flag=inf", "flag=1e7",
                           "flag=1,", ",flag=1", "flag=1,,turn=1", "flag=1 ", "fast=1", "=1", "1"}) {
    const auto model = CostModel::create(text);
    ASSERT_FALSE(model.ok()) << text;
    EXPECT_EQ(model.status().code(), FLOE_ERR_ENVIRONMENT);
    EXPECT_THAT(model.status().message(), AllOf(HasSubstr("FLOE_COST_MODEL='" + std::string(text) + "'"),
                                                HasSubstr("return_line_kib")));
  }
}

// As much as the model allows, for the most ranks that there may be: nothing overflows.
TEST(CostModel, IsBounded) {
  const CostModel model = model_of(
      "flag=1000000,turn=1000000,small=0,small_kib=1000000,stream=1000000,stream_kib=1000000,"
      "return_line=1000000,return_line_kib=1000000,exchange=1000000,exchange_kib=1000000");
  for (const auto& [name, pattern] : kPatterns)
    for (const size_t cpus : {size_t{0}, size_t{1}, size_t{1} << 16}) {
      const Surroundings where{1 << 16, ranks_per_cpu(1 << 16, cpus)};
      const Cost cost(model.at(where), where, pattern);
      for (const Protocol protocol : kProtocols) {
        EXPECT_GE(cost.fixed(protocol), 0) << name;
        EXPECT_GT(cost.kib(protocol), 0) << name;
      }
    }
}

TEST(Explain, NamesRangesAndTimesOnBothSidesOfEachLimit) {
  const Surroundings where{2};
  const Coefficients c =
      model_of("flag=100,small=0,small_kib=250,stream=0,stream_kib=100,return_line=0,return_line_kib=50")
          .at(where);
  // 100 + 200 x (KiB - 56 B) for the small one, as what two exchange takes 2/5, 200 + 100 x KiB for the
  // return line: they meet just below 1136 B.
  EXPECT_THAT(explain(Cost(c, where, pattern::kAllReduce)),
              testing::ElementsAre("small       to 1135 B  (567 B: small 200 ns, return_line 255 ns; "
                                   "2270 B: small 532 ns, return_line 422 ns)",
                                   "return_line above"));
}

}  // namespace
}  // namespace floe
