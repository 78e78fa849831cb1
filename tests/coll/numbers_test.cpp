// What results are made of: one rounding, the same bits everywhere and every time.
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

#include "exercise.h"

namespace floe::test {
namespace {

// The all_reduce of one value a rank, as floats, on every rank the same.
float all_reduce_on(floe_type_t type, floe_op_t op, std::vector<float> values) {
  std::vector<float> results(values.size());
  run_ranks(static_cast<uint32_t>(values.size()), [&](Rank& r) {
    Bytes data = from_float(type, {&values[r.rank], 1});
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), 1, type, op, nullptr));
    results[r.rank] = to_float(type, data.data());
  });
  for (const float result : results) EXPECT_EQ(0, std::memcmp(&result, &results[0], sizeof(float)));
  return results[0];
}

TEST(Numbers, Bf16RoundsOnceOverAllRanks) {
  // 256 + 7 x 1 is 263: between 262 and 264 in bfloat16. Rounded at each step it stays 256.
  EXPECT_EQ(264.0f, all_reduce_on(FLOE_BFLOAT16, FLOE_SUM, {256, 1, 1, 1, 1, 1, 1, 1}));
}

TEST(Numbers, Bf16RoundsTiesToEven) {
  EXPECT_EQ(256.0f, all_reduce_on(FLOE_BFLOAT16, FLOE_SUM, {256, 1}));
  EXPECT_EQ(260.0f, all_reduce_on(FLOE_BFLOAT16, FLOE_SUM, {258, 1}));
}

TEST(Numbers, Float16KeepsSubnormals) {
  const float tiny = std::ldexp(1.0f, -24);
  EXPECT_EQ(3 * tiny, all_reduce_on(FLOE_FLOAT16, FLOE_SUM, {tiny, tiny, tiny}));
}

TEST(Numbers, Bf16KeepsSubnormals) {
  const float tiny = std::ldexp(1.0f, -133);
  EXPECT_EQ(3 * tiny, all_reduce_on(FLOE_BFLOAT16, FLOE_SUM, {tiny, tiny, tiny}));
}

TEST(Numbers, Float16SumsBeyondItsRangeOnTheWay) {
  EXPECT_EQ(60000.0f, all_reduce_on(FLOE_FLOAT16, FLOE_SUM, {60000, 60000, -60000}));
  EXPECT_EQ(std::numeric_limits<float>::infinity(), all_reduce_on(FLOE_FLOAT16, FLOE_SUM, {60000, 60000}));
}

TEST(Numbers, AvgDividesBeforeRounding) {
  EXPECT_EQ(50016.0f, all_reduce_on(FLOE_FLOAT16, FLOE_AVG, {60000, 40032}));
  EXPECT_EQ(2.5f, all_reduce_on(FLOE_FLOAT32, FLOE_AVG, {1, 2, 3, 4}));
}

TEST(Numbers, Float8RoundsOnceOverAllRanks) {
  // 16 + 7 x 1 is 23: between 22 and 24 in E4M3. Rounded at each step it stays 16.
  EXPECT_EQ(24.0f, all_reduce_on(FLOE_FLOAT8_E4M3, FLOE_SUM, {16, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(448.0f, all_reduce_on(FLOE_FLOAT8_E4M3, FLOE_SUM, {448, 448}));
  EXPECT_EQ(56.0f, all_reduce_on(FLOE_FLOAT8_E5M2, FLOE_SUM, {32, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(std::numeric_limits<float>::infinity(),
            all_reduce_on(FLOE_FLOAT8_E5M2, FLOE_SUM, {57344, 57344}));
}

TEST(Numbers, NanWinsOverEverythingInMinAndMax) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto type : {FLOE_FLOAT32, FLOE_FLOAT64, FLOE_FLOAT16, FLOE_BFLOAT16, FLOE_FLOAT8_E4M3})
    for (const auto op : {FLOE_MIN, FLOE_MAX}) {
      EXPECT_TRUE(std::isnan(all_reduce_on(type, op, {nan, 1, 2}))) << type_text(type) << op_text(op);
      EXPECT_TRUE(std::isnan(all_reduce_on(type, op, {1, 2, nan}))) << type_text(type) << op_text(op);
    }
}

// Sums of float32 depend on the order of the terms: ranks that disagree by a bit drift apart in training.
class SameBits : public testing::TestWithParam<uint32_t> {};

Bytes one_run(uint32_t ranks, Collective collective, floe_type_t type, uint64_t count, uint64_t jitter) {
  std::mutex mutex;
  std::vector<Bytes> results(ranks);
  run_ranks(ranks, [&](Rank& r) {
    // Other calls before it and another order of arrival must not move a bit.
    std::this_thread::sleep_for(std::chrono::milliseconds(jitter * (ranks - r.rank)));
    for (uint64_t i = 0; i < jitter; ++i) EXPECT_FLOE_OK(floe_barrier(r.comm, nullptr));
    Exercise exercise(r, {.collective = collective, .type = type, .count = count, .values = Values::kRandom},
                      99);
    ASSERT_FLOE_OK(exercise.start(nullptr));
    const std::lock_guard lock(mutex);
    results[r.rank] = {exercise.received().begin(), exercise.received().end()};
  });
  if (collective != Collective::kAllReduce) {
    Bytes joined;
    for (const Bytes& part : results) joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }
  for (uint32_t rank = 1; rank < ranks; ++rank)
    EXPECT_TRUE(results[rank] == results[0]) << "ranks 0 and " << rank << " have different bits";
  return results[0];
}

TEST_P(SameBits, OnEveryRankAndInEveryRun) {
  for (const auto collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
    for (const auto type : {FLOE_FLOAT32, FLOE_FLOAT64, FLOE_FLOAT16, FLOE_BFLOAT16})
      for (const uint64_t count : {3, 1000, 100'003}) {
        const Bytes first = one_run(GetParam(), collective, type, count, 0);
        EXPECT_TRUE(first == one_run(GetParam(), collective, type, count, 3))
            << type_text(type) << " x " << count;
      }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, testing::Values(2, 3, 4, 7));

// Whatever the order, n - 1 roundings of float32 keep within (n - 1) units of the sum of the sizes.
TEST(Numbers, Float32SumsAreAsNearAsTheirRoundings) {
  constexpr uint32_t ranks = 5;
  constexpr uint64_t count = 50'000, seed = 7;
  run_ranks(ranks, [](Rank& r) {
    Exercise exercise(r, {.count = count, .values = Values::kRandom}, seed);
    ASSERT_FLOE_OK(exercise.start(nullptr));
    std::vector<Bytes> inputs;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      inputs.push_back(input(FLOE_FLOAT32, FLOE_SUM, count, rank, seed, Values::kRandom));
    for (uint64_t i = 0; i < count; ++i) {
      double sum = 0, size = 0;
      for (const Bytes& one : inputs) {
        const double value = to_float(FLOE_FLOAT32, &one[i * 4]);
        sum += value;
        size += std::fabs(value);
      }
      const double got = to_float(FLOE_FLOAT32, exercise.received().data() + i * 4);
      ASSERT_LE(std::fabs(got - sum), (ranks - 1) * size * std::numeric_limits<float>::epsilon())
          << "element " << i;
    }
  });
}

TEST(LocalReduce, GivesTheOraclesResult) {
  for (const auto type : all_types())
    for (const auto op : all_ops()) {
      if (!supported(type, op) || op == kPremulSum) continue;
      for (const uint32_t sources : {1u, 2u, 3u, 8u}) {
        constexpr uint64_t count = 1003;
        std::vector<Bytes> inputs;
        std::vector<const void*> pointers;
        for (uint32_t i = 0; i < sources; ++i) inputs.push_back(input(type, op, count, i, 3));
        for (const Bytes& one : inputs) pointers.push_back(one.data());
        Bytes result(count * element_size(type));
        ASSERT_FLOE_OK(floe_local_reduce(result.data(), pointers.data(), sources, count, type, op));
        EXPECT_TRUE(same_elements(type, result, reduce_inputs(type, op, inputs)))
            << op_text(op) << ", " << sources;
      }
    }
}

}  // namespace
}  // namespace floe::test
