// float32 to bfloat16 and back, and sums whose sources are stored as either.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "reduce/reduce.h"

namespace floe {
namespace {

uint16_t rounded(uint32_t bits) {
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return nan ? 0x7FC0 : static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

class Narrow : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(set_isa(GetParam()).ok()); }
  void TearDown() override { ASSERT_TRUE(set_isa("").ok()); }
};

// Every upper half, with the lower halves that decide: ties and their neighbours, payloads of NaN.
TEST_P(Narrow, RoundsToNearestEven) {
  std::vector<uint32_t> bits;
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      bits.push_back(upper << 16 | lower);
  std::vector<uint16_t> result(bits.size());
  narrow(result.data(), bits.data(), bits.size());
  for (size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(rounded(bits[i]), result[i]) << std::hex << bits[i];
}

TEST_P(Narrow, WidensExactlyAndTouchesNoMore) {
  for (const uint64_t count : {0, 1, 3, 4, 5, 15, 16, 17, 31, 33, 1000}) {
    std::vector<uint16_t> halves(count);
    for (uint64_t i = 0; i < count; ++i) halves[i] = static_cast<uint16_t>(i * 2654435761u);
    // At an odd address, with a byte after the end.
    std::vector<unsigned char> wide(4 * count + 2, 0xAB), narrowed(2 * count + 2, 0xAB);
    widen(wide.data() + 1, halves.data(), count);
    for (uint64_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &wide[1 + 4 * i], 4);
      ASSERT_EQ(uint32_t{halves[i]} << 16, bits);
    }
    narrow(narrowed.data() + 1, wide.data() + 1, count);
    EXPECT_EQ(0xAB, wide.back());
    EXPECT_EQ(0xAB, narrowed.back());
  }
}

TEST_P(Narrow, MixedSumsAreThoseOfTheWidenedSources) {
  constexpr uint64_t count = 5003;
  for (const uint32_t sources : {1u, 2u, 3u, 7u})
    for (const int op : {static_cast<int>(FLOE_SUM), static_cast<int>(FLOE_AVG), kPremulSum}) {
      std::vector<std::vector<float>> wide(sources, std::vector<float>(count));
      std::vector<std::vector<uint16_t>> narrowed(sources, std::vector<uint16_t>(count));
      std::vector<const void*> plain;
      std::vector<Source> mixed;
      std::vector<double> factors;
      for (uint32_t s = 0; s < sources; ++s) {
        for (uint64_t i = 0; i < count; ++i)
          wide[s][i] = std::sin(static_cast<float>(i * (s + 3))) * std::ldexp(1.0f, static_cast<int>(i % 40));
        narrow(narrowed[s].data(), wide[s].data(), count);
        const bool is_narrow = s % 2 != 0 || sources == 3;
        if (is_narrow) widen(wide[s].data(), narrowed[s].data(), count);
        plain.push_back(wide[s].data());
        mixed.push_back(is_narrow ? Source{narrowed[s].data(), true} : Source{wide[s].data(), false});
        factors.push_back(0.5 + s);
      }
      std::vector<float> wanted(count), got(count);
      void* const to[] = {wanted.data()};
      const std::span<const double> used =
          op == kPremulSum ? std::span<const double>(factors) : std::span<const double>();
      reduce(to, plain, count, FLOE_FLOAT32, op, sources, used);
      reduce_mixed(got.data(), false, mixed, count, op, sources, used);
      EXPECT_EQ(0, std::memcmp(wanted.data(), got.data(), count * 4)) << sources << ", " << op;
      std::vector<uint16_t> wanted_narrow(count), got_narrow(count);
      narrow(wanted_narrow.data(), wanted.data(), count);
      reduce_mixed(got_narrow.data(), true, mixed, count, op, sources, used);
      EXPECT_EQ(wanted_narrow, got_narrow) << sources << ", " << op;
    }
}

std::vector<std::string> all_isas() { return {isa_names().begin(), isa_names().end()}; }
INSTANTIATE_TEST_SUITE_P(Isa, Narrow, testing::ValuesIn(all_isas()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace floe
