#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "oracle.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

class FloatValue : public ::testing::TestWithParam<int> {};

TEST_P(FloatValue, OfEveryPatternIsTheOraclesAtAnyAddress) {
  const int type = GetParam();
  std::vector<Bits> patterns = special_values(type);
  if (type_size(type) <= 2)
    for (Bits pattern = 0; pattern < Bits{1} << (8 * type_size(type)); ++pattern) patterns.push_back(pattern);
  for (const Bits pattern : patterns) {
    std::byte memory[9] = {};
    std::memcpy(memory + 1, &pattern, type_size(type));
    const double got = float_value(type, memory + 1), want = decode(type, pattern);
    if (std::isnan(want))
      ASSERT_TRUE(std::isnan(got));
    else
      ASSERT_EQ(std::memcmp(&got, &want, sizeof(double)), 0) << got << " instead of " << want;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FloatValue,
                         ::testing::Values(FLOE_FLOAT32, FLOE_FLOAT64, FLOE_FLOAT16, FLOE_BFLOAT16,
                                           FLOE_FLOAT8_E4M3, FLOE_FLOAT8_E5M2),
                         [](const auto& info) { return std::string(type_name(info.param)); });

}  // namespace
}  // namespace floe
