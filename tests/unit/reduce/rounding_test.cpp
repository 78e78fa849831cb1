// Conversions of the 16-bit floats, over all their values, through the only way to see them: reductions.
#include <gtest/gtest.h>

#include "oracle.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

constexpr size_t kPatterns = 65536;

std::vector<Bits> all_patterns() {
  std::vector<Bits> patterns(kPatterns);
  for (size_t i = 0; i < kPatterns; ++i) patterns[i] = i;
  return patterns;
}

class SixteenBitFloat : public ::testing::TestWithParam<int> {
 protected:
  ~SixteenBitFloat() override { EXPECT_TRUE(set_isa("").ok()); }

  // Every pattern reduced with `others`, on every instruction set, must give what the oracle says.
  void expect_oracle(int op, std::span<const Bits> others, uint32_t divisor) {
    const int type = GetParam();
    std::vector<std::vector<std::byte>> sources = {to_bytes(type, all_patterns())};
    for (const Bits other : others) sources.push_back(to_bytes(type, std::vector<Bits>(kPatterns, other)));
    std::vector<const void*> srcs;
    for (const auto& source : sources) srcs.push_back(source.data());

    std::vector<Bits> expected(kPatterns);
    std::vector<Bits> column(1);
    column.insert(column.end(), others.begin(), others.end());
    for (Bits pattern = 0; pattern < kPatterns; ++pattern) {
      column[0] = pattern;
      expected[pattern] = reduce_element(column, type, op, divisor);
    }
    for (const std::string& isa : isa_names()) {
      ASSERT_TRUE(set_isa(isa).ok());
      std::vector<std::byte> bytes(sources[0].size());
      reduce(std::vector<void*>{bytes.data()}, srcs, kPatterns, type, op, divisor);
      const auto result = to_elements(type, bytes);
      for (Bits pattern = 0; pattern < kPatterns; ++pattern)
        ASSERT_EQ(result[pattern], expected[pattern])
            << fmt::format("{}: {} of {} {:#06x} and {:#06x}, divisor {}", isa, op_name(op), type_name(type),
                           pattern, others.empty() ? 0 : others[0], divisor);
    }
  }
};

TEST_P(SixteenBitFloat, EveryPatternSurvivesTheAccumulatorAndNanBecomesCanonical) {
  const int type = GetParam();
  const auto patterns = all_patterns();
  const auto source = to_bytes(type, patterns);
  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    std::vector<std::byte> bytes(source.size());
    reduce(std::vector<void*>{bytes.data()}, std::vector<const void*>{source.data()}, kPatterns, type,
           FLOE_AVG, 1);
    const auto result = to_elements(type, bytes);
    for (const Bits pattern : patterns)
      ASSERT_EQ(result[pattern], is_nan(type, pattern) ? canonical_nan(type) : pattern) << isa;
  }
}

TEST_P(SixteenBitFloat, EveryPatternWithEverySpecialValueRoundsAsTheOracle) {
  for (const Bits special : special_values(GetParam())) {
    const std::vector<Bits> others = {special};
    for (const int op : {FLOE_SUM, FLOE_PRODUCT, FLOE_MIN, FLOE_MAX}) expect_oracle(op, others, 1);
  }
}

// Ties of all exponents: a sum with a number of half the last place, and products with 2^k * 1.5.
TEST_P(SixteenBitFloat, EveryPatternWithNumbersOfAllMagnitudesRoundsAsTheOracle) {
  const int type = GetParam();
  for (int exponent = -24; exponent <= 15; exponent += 3) {
    for (const double factor : {1.0, -1.5}) {
      const std::vector<Bits> others = {encode(type, std::ldexp(factor, exponent))};
      expect_oracle(FLOE_SUM, others, 1);
      expect_oracle(FLOE_PRODUCT, others, 1);
    }
  }
}

TEST_P(SixteenBitFloat, EveryPatternDividedRoundsAsTheOracle) {
  for (const uint32_t divisor : {2u, 3u, 7u, 64u, 1000u, 16777217u, 4294967295u}) {
    expect_oracle(FLOE_AVG, {}, divisor);
    expect_oracle(FLOE_AVG, std::vector<Bits>{1, 0x3F80}, divisor);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SixteenBitFloat, ::testing::Values(FLOE_FLOAT16, FLOE_BFLOAT16),
                         [](const auto& info) { return std::string(type_name(info.param)); });

}  // namespace
}  // namespace floe
