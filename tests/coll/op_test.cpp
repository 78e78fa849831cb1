// Handles of premul-sum: what they live for, and what is wrong with one that is misused.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "exercise.h"

namespace floe::test {
namespace {

floe_op_t make(const Rank& r, float factor, floe_type_t type = FLOE_FLOAT32) {
  const Bytes scalar = from_float(type, {&factor, 1});
  floe_op_t op = FLOE_SUM;
  EXPECT_FLOE_OK(floe_op_create_premul_sum(r.comm, scalar.data(), type, &op));
  EXPECT_GT(static_cast<int>(op), static_cast<int>(FLOE_BXOR));
  return op;
}

void expect_refused(floe_status_t got, const std::string& words) {
  EXPECT_EQ(FLOE_ERR_ARGUMENT, got) << floe_status_string(got) << ": " << floe_last_error();
  EXPECT_NE(std::string::npos, std::string(floe_last_error()).find(words)) << floe_last_error();
}

TEST(PremulSum, OfDifferentFactorsIsTheSumOfProducts) {
  for (const uint32_t ranks : {1, 2, 3, 5})
    run_ranks(ranks, [](Rank& r) {
      // 2 * 10 + 4 * 11 + 6 * 12 ...
      const floe_op_t op = make(r, 2 * static_cast<float>(r.rank + 1));
      float want = 0, value = static_cast<float>(10 + r.rank);
      for (uint32_t rank = 0; rank < r.size; ++rank) want += 2 * static_cast<float>((rank + 1) * (10 + rank));
      ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, &value, 1, FLOE_FLOAT32, op, nullptr));
      EXPECT_EQ(want, value);
    });
}

TEST(PremulSum, RoundsOnceAfterTheSum) {
  run_ranks(2, [](Rank& r) {
    // (1 + 2^-7) (1 + 2^-6) - (1 + 3 * 2^-7) is 2^-13, and nothing if the product becomes bfloat16 first.
    const floe_op_t op = make(r, r.rank == 0 ? 1.0078125f : -1.0f, FLOE_BFLOAT16);
    const float value = r.rank == 0 ? 1.015625f : 1.0234375f;
    Bytes data = from_float(FLOE_BFLOAT16, {&value, 1});
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), 1, FLOE_BFLOAT16, op, nullptr));
    EXPECT_EQ(std::ldexp(1.0f, -13), to_float(FLOE_BFLOAT16, data.data()));
  });
}

TEST(PremulSum, SizesBuffersAndTypesTakeTurns) {
  for (const uint32_t ranks : {1, 2, 3, 4})
    run_ranks(ranks, [](Rank& r) {
      uint64_t seed = 1;
      for (const auto collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
        for (const uint64_t count : {0, 1, 7, 4099, 100'003})
          for (const auto type : {FLOE_FLOAT32, FLOE_BFLOAT16, FLOE_FLOAT8_E4M3}) {
            Exercise(r,
                     {.collective = collective,
                      .type = type,
                      .op = kPremulSum,
                      .count = count,
                      .root = static_cast<uint32_t>(seed % r.size),
                      .in_place = seed % 2 == 0,
                      .misalign = seed % 5},
                     seed)
                .run();
            ++seed;
          }
    });
}

// The exercise destroys its handle as soon as the call has returned.
TEST(PremulSum, UnderWayNeedsItsHandleNoMore) {
  run_ranks(3,
            [](Rank& r) {
              for (uint64_t seed = 1; seed <= 10; ++seed) {
                const Shape shape{.type = FLOE_FLOAT16, .op = kPremulSum, .count = seed * 5000};
                Exercise first(r, shape, seed), second(r, shape, seed + 100);
                Request one, two;
                ASSERT_FLOE_OK(first.start(one.out()));
                ASSERT_FLOE_OK(second.start(two.out()));
                ASSERT_FLOE_OK(one.wait());
                ASSERT_FLOE_OK(two.wait());
                EXPECT_TRUE(first.check());
                EXPECT_TRUE(second.check());
              }
            },
            {.workers = 1});
}

TEST(PremulSum, ANanFactorMakesEverythingNan) {
  run_ranks(2, [](Rank& r) {
    const floe_op_t op = make(r, r.rank == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0f);
    std::vector<float> data(100, 1);
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), 100, FLOE_FLOAT32, op, nullptr));
    for (const float value : data) EXPECT_TRUE(std::isnan(value));
  });
}

TEST(PremulSum, MisusedHandlesAreRefusedAndHarmless) {
  MemoryStore store;
  run_ranks(2, [&](Rank& r) {
    float data[8] = {};
    const auto call = [&](floe_comm_t* comm, floe_type_t type, floe_op_t op) {
      return floe_all_reduce(comm, FLOE_IN_PLACE, data, 1, type, op, nullptr);
    };
    const floe_op_t op = make(r, 2);
    expect_refused(call(r.comm, FLOE_FLOAT64, op), "made for float32, and type is float64");
    EXPECT_EQ(FLOE_ERR_UNSUPPORTED, call(r.comm, FLOE_INT32, op));
    expect_refused(floe_reduce_scatter(r.comm, data, data + 4, 1, FLOE_FLOAT16, op, nullptr), "made for");
    expect_refused(floe_reduce(r.comm, data, data + 4, 1, FLOE_FLOAT16, op, 0, nullptr), "made for");
    expect_refused(call(r.comm, FLOE_FLOAT32, kPremulSum), "floe_op_create_premul_sum");
    expect_refused(call(r.comm, FLOE_FLOAT32, static_cast<floe_op_t>(9)), "9 is not a floe_op_t");
    expect_refused(call(r.comm, FLOE_FLOAT32, FLOE_OP_LIMIT), "not a handle");

    // Handles are a communicator's own.
    floe_comm_t* const other = create_comm(r.context, r.rank, r.size, "other", store);
    ASSERT_NE(nullptr, other);
    expect_refused(call(other, FLOE_FLOAT32, op), "not a handle that this communicator");
    expect_refused(floe_op_destroy(other, op), "not a handle");
    EXPECT_FLOE_OK(floe_comm_destroy(other));

    const void* const sources[] = {data, data + 4};
    expect_refused(floe_local_reduce(data, sources, 2, 1, FLOE_FLOAT32, op), "no handle");
    expect_refused(floe_local_reduce(data, sources, 2, 1, FLOE_FLOAT32, kPremulSum), "no handle");
    floe_op_t made = FLOE_SUM;
    expect_refused(floe_op_create_premul_sum(r.comm, nullptr, FLOE_FLOAT32, &made), "scalar is NULL");
    expect_refused(floe_op_create_premul_sum(r.comm, data, FLOE_FLOAT32, nullptr), "op is NULL");
    expect_refused(floe_op_create_premul_sum(nullptr, data, FLOE_FLOAT32, &made), "comm is NULL");
    expect_refused(floe_op_create_premul_sum(r.comm, data, static_cast<floe_type_t>(77), &made), "77");

    EXPECT_FLOE_OK(floe_op_destroy(r.comm, op));
    expect_refused(floe_op_destroy(r.comm, op), "not a handle");
    expect_refused(floe_op_destroy(r.comm, FLOE_SUM), "not a handle");
    expect_refused(call(r.comm, FLOE_FLOAT32, op), "not destroyed");
    EXPECT_NE(op, make(r, 3)) << "a handle comes back at once";
    Exercise(r, {.op = kPremulSum, .count = 100}, 1).run();
  });
}

}  // namespace
}  // namespace floe::test
