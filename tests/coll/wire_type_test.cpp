// floe_comm_set_wire_type on ranks of one host: memory carries float32 whatever is set, libfabric bfloat16.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "exercise.h"

namespace floe::test {
namespace {

bool on_memory() {
  const char* const shm = std::getenv("FLOE_SHM");
  return !shm || std::string_view(shm) != "off";
}

std::vector<float> values_of(uint32_t rank, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i % 1009 * (rank + 2)));
  return values;
}

// Runs a sum of each form, and expects that it keeps to the bound and is rounded exactly where it may be.
void check_sums(const Rank& r, uint64_t count, floe_op_t op, bool rounded) {
  const std::vector<float> mine = values_of(r.rank, count);
  std::vector<float> sums(count), in_place = mine;
  ASSERT_FLOE_OK(floe_all_reduce(r.comm, mine.data(), sums.data(), count, FLOE_FLOAT32, op, nullptr));
  ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, in_place.data(), count, FLOE_FLOAT32, op, nullptr));
  EXPECT_EQ(0, std::memcmp(sums.data(), in_place.data(), count * sizeof(float)));
  std::vector<float> of_rank_0 = sums;
  ASSERT_FLOE_OK(floe_broadcast(r.comm, of_rank_0.data(), count, FLOE_FLOAT32, 0, nullptr));
  EXPECT_EQ(0, std::memcmp(sums.data(), of_rank_0.data(), count * sizeof(float))) << "other bits than rank 0";
  const double scale = op == FLOE_AVG ? r.size : 1;
  bool all_narrow = true;
  for (uint64_t i = 0; i < count; ++i) {
    double sum = 0, size = 0;
    for (uint32_t rank = 0; rank < r.size; ++rank) {
      const double value = std::sin(static_cast<float>(i % 1009 * (rank + 2))) / scale;
      sum += value;
      size += std::fabs(value);
    }
    const double bound = rounded ? std::ldexp(std::fabs(sum) + 1.01 * size, -8) : std::ldexp(size, -21);
    ASSERT_LE(std::fabs(sums[i] - sum), bound) << "element " << i;
    uint32_t bits = 0;
    std::memcpy(&bits, &sums[i], sizeof bits);
    all_narrow = all_narrow && (bits & 0xFFFF) == 0;
  }
  EXPECT_EQ(rounded, all_narrow);
}

class WireType : public testing::TestWithParam<uint32_t> {};

TEST_P(WireType, RoundsWhatTravelsAndNothingElse) {
  run_ranks(GetParam(), [](Rank& r) {
    ASSERT_FLOE_OK(floe_comm_set_wire_type(r.comm, FLOE_BFLOAT16));
    for (const uint64_t count : {30'001, 700'001})
      for (const floe_op_t op : {FLOE_SUM, FLOE_AVG}) check_sums(r, count, op, !on_memory());
    check_sums(r, 100, FLOE_SUM, false);  // one crossing: stays as it is
    float exact = 1 + std::ldexp(1.0f, -20);
    std::vector<float> largest(30'000, exact);
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, largest.data(), largest.size(), FLOE_FLOAT32,
                                   FLOE_MAX, nullptr));
    EXPECT_EQ(exact, largest[7]) << "only sums are rounded";
    ASSERT_FLOE_OK(floe_comm_set_wire_type(r.comm, FLOE_FLOAT32));
    check_sums(r, 30'001, FLOE_SUM, false);
  });
}

TEST_P(WireType, GoesWithFactors) {
  run_ranks(GetParam(), [](Rank& r) {
    ASSERT_FLOE_OK(floe_comm_set_wire_type(r.comm, FLOE_BFLOAT16));
    const float factor = static_cast<float>(1u << r.rank);
    floe_op_t op{};
    ASSERT_FLOE_OK(floe_op_create_premul_sum(r.comm, &factor, FLOE_FLOAT32, &op));
    std::vector<float> ones(50'000, 1);
    ASSERT_FLOE_OK(
        floe_all_reduce(r.comm, FLOE_IN_PLACE, ones.data(), ones.size(), FLOE_FLOAT32, op, nullptr));
    for (const float value : ones) ASSERT_EQ(static_cast<float>((1u << r.size) - 1), value);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, WireType, testing::Values(2, 3));

TEST(WireType, ThatDiffersIsNamed) {
  if (on_memory()) GTEST_SKIP() << "nothing travels";
  run_ranks(2, [](Rank& r) {
    if (r.rank == 1) {
      ASSERT_FLOE_OK(floe_comm_set_wire_type(r.comm, FLOE_BFLOAT16));
    }
    std::vector<float> data(30'000);
    EXPECT_EQ(FLOE_ERR_MISMATCH, floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), data.size(),
                                                 FLOE_FLOAT32, FLOE_SUM, nullptr));
    const std::string text = floe_last_error();
    EXPECT_NE(text.npos, text.find("rank 1 called all_reduce (float32 x 30000, sum, bfloat16 between hosts)"))
        << text;
  });
}

TEST(WireType, IsOneOfTwo) {
  run_ranks(1, [](Rank& r) {
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_set_wire_type(r.comm, FLOE_FLOAT16));
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_set_wire_type(nullptr, FLOE_FLOAT32));
  });
}

}  // namespace
}  // namespace floe::test
