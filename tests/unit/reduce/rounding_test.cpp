// Conversions of the 16- and 8-bit floats, over all their values, through the only way to see them:
// reductions.
#include <gtest/gtest.h>

#include "oracle.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

std::vector<Bits> all_patterns(int type) {
  std::vector<Bits> patterns(size_t{1} << (8 * type_size(type)));
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = i;
  return patterns;
}

class SmallFloat : public ::testing::TestWithParam<int> {
 protected:
  ~SmallFloat() override { EXPECT_TRUE(set_isa("").ok()); }

  // Every pattern reduced with `others`, on every instruction set, must give what the oracle says.
  void expect_oracle(int op, std::span<const Bits> others, uint32_t divisor) {
    const int type = GetParam();
    const auto patterns = all_patterns(type);
    std::vector<std::vector<std::byte>> sources = {to_bytes(type, patterns)};
    for (const Bits other : others)
      sources.push_back(to_bytes(type, std::vector<Bits>(patterns.size(), other)));
    std::vector<const void*> srcs;
    for (const auto& source : sources) srcs.push_back(source.data());

    std::vector<Bits> expected(patterns.size());
    std::vector<Bits> column(1);
    column.insert(column.end(), others.begin(), others.end());
    for (size_t pattern = 0; pattern < patterns.size(); ++pattern) {
      column[0] = pattern;
      expected[pattern] = reduce_element(column, type, op, divisor);
    }
    for (const std::string& isa : isa_names()) {
      ASSERT_TRUE(set_isa(isa).ok());
      std::vector<std::byte> bytes(sources[0].size());
      reduce(std::vector<void*>{bytes.data()}, srcs, patterns.size(), type, op, divisor);
      const auto result = to_elements(type, bytes);
      for (size_t pattern = 0; pattern < patterns.size(); ++pattern)
        ASSERT_EQ(result[pattern], expected[pattern])
            << fmt::format("{}: {} of {} {:#06x} and {:#06x}, divisor {}", isa, op_name(op), type_name(type),
                           pattern, others.empty() ? Bits{0} : others[0], divisor);
    }
  }
};

TEST_P(SmallFloat, EveryPatternSurvivesTheAccumulatorAndNanBecomesCanonical) {
  const int type = GetParam();
  const auto patterns = all_patterns(type);
  const auto source = to_bytes(type, patterns);
  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    std::vector<std::byte> bytes(source.size());
    reduce(std::vector<void*>{bytes.data()}, std::vector<const void*>{source.data()}, patterns.size(), type,
           FLOE_AVG, 1);
    const auto result = to_elements(type, bytes);
    for (const Bits pattern : patterns)
      ASSERT_EQ(result[static_cast<size_t>(pattern)], is_nan(type, pattern) ? canonical_nan(type) : pattern)
          << isa;
  }
}

TEST_P(SmallFloat, EveryPatternWithEverySpecialValueRoundsAsTheOracle) {
  for (const Bits special : special_values(GetParam())) {
    const std::vector<Bits> others = {special};
    for (const int op : {FLOE_SUM, FLOE_PRODUCT, FLOE_MIN, FLOE_MAX}) expect_oracle(op, others, 1);
  }
}

// Ties of all exponents: a sum with a number of half the last place, and products with 2^k * 1.5.
TEST_P(SmallFloat, EveryPatternWithNumbersOfAllMagnitudesRoundsAsTheOracle) {
  const int type = GetParam();
  for (int exponent = -24; exponent <= 15; exponent += 3) {
    for (const double factor : {1.0, -1.5}) {
      const std::vector<Bits> others = {encode(type, std::ldexp(factor, exponent))};
      expect_oracle(FLOE_SUM, others, 1);
      expect_oracle(FLOE_PRODUCT, others, 1);
    }
  }
}

TEST_P(SmallFloat, EveryPatternDividedRoundsAsTheOracle) {
  for (const uint32_t divisor : {2u, 3u, 7u, 64u, 1000u, 16777217u, 4294967295u}) {
    expect_oracle(FLOE_AVG, {}, divisor);
    expect_oracle(FLOE_AVG, std::vector<Bits>{1, encode(GetParam(), 0.75)}, divisor);
  }
}

// All bfloat16 and the float32 next to them and half-way to the next, so that ties are among them, come as
// factors of one.
TEST_P(SmallFloat, EveryAccumulatorRoundsAsTheOracle) {
  const int type = GetParam();
  const auto one = to_bytes(type, std::vector<Bits>{encode(type, 1)});
  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    for (const Bits upper : all_patterns(FLOE_BFLOAT16))
      for (const Bits lower : {0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF}) {
        const double value = decode(FLOE_FLOAT32, upper << 16 | lower);
        std::vector<std::byte> result(one.size());
        reduce(std::vector<void*>{result.data()}, std::vector<const void*>{one.data()}, 1, type, kPremulSum,
               1, std::vector<double>{value});
        ASSERT_EQ(to_elements(type, result)[0], encode(type, value)) << isa << ": " << value;
      }
  }
}

// NaN and subnormal results take a way of their own on some instruction sets: wherever one is, it and all
// others must come out right.
TEST_P(SmallFloat, OneUnusualElementAnywhereAmongOthersRoundsAsTheOracle) {
  const int type = GetParam();
  const size_t size = type_size(type);
  constexpr size_t kCount = 150;
  const Bits sign = Bits{1} << (8 * size - 1);
  for (const Bits unusual : {canonical_nan(type), canonical_nan(type) | sign, Bits{1}, Bits{2} | sign}) {
    std::vector<Bits> first(kCount), second(kCount), expected(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      first[i] = encode(type, 1 + static_cast<double>(i % 8) / 8);
      second[i] = encode(type, static_cast<double>(i % 5) - 2);
      expected[i] = reduce_element(std::vector<Bits>{first[i], second[i]}, type, FLOE_SUM, 1);
    }
    const Bits unusual_sum = reduce_element(std::vector<Bits>{unusual, 0}, type, FLOE_SUM, 1);
    for (const std::string& isa : isa_names()) {
      ASSERT_TRUE(set_isa(isa).ok());
      for (size_t at = 0; at < kCount; ++at) {
        auto a = first, b = second, sum = expected;
        a[at] = unusual;
        b[at] = 0;
        sum[at] = unusual_sum;
        const auto a_bytes = to_bytes(type, a), b_bytes = to_bytes(type, b);
        std::vector<std::byte> result(kCount * size);
        reduce(std::vector<void*>{result.data()}, std::vector<const void*>{a_bytes.data(), b_bytes.data()},
               kCount, type, FLOE_SUM, 1);
        ASSERT_EQ(to_elements(type, result), sum) << isa << ", element " << at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallFloat,
                         ::testing::Values(FLOE_FLOAT16, FLOE_BFLOAT16, FLOE_FLOAT8_E4M3, FLOE_FLOAT8_E5M2),
                         [](const auto& info) { return std::string(type_name(info.param)); });

class EightBitFloat : public SmallFloat {};

TEST_P(EightBitFloat, EveryPairOfPatternsRoundsAsTheOracle) {
  for (const Bits other : all_patterns(GetParam())) {
    const std::vector<Bits> others = {other};
    for (const int op : {FLOE_SUM, FLOE_PRODUCT, FLOE_MIN, FLOE_MAX}) expect_oracle(op, others, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EightBitFloat, ::testing::Values(FLOE_FLOAT8_E4M3, FLOE_FLOAT8_E5M2),
                         [](const auto& info) { return std::string(type_name(info.param)); });

}  // namespace
}  // namespace floe
