#include "fit.h"

#include <gtest/gtest.h>

namespace floe::bench {
namespace {

constexpr Coefficients kTrue = {30'000,           1'500'000,        {5'000, 40'000},
                                {25'000, 35'000}, {40'000, 20'000}, {20'000, 15'000}};
constexpr Coefficients kBase = {30'000, 0, {1, 2}, {3, 4}, {5, 6}, {7, 8}};

// What the model itself expects, `factor` times as long.
std::vector<Sample> samples(const Surroundings& where, double factor = 1) {
  std::vector<Sample> list;
  for (const floe::Pattern pattern : {pattern::kAllReduce, pattern::kAllToAll, pattern::kBroadcast})
    for (const Protocol protocol : kProtocols)
      for (uint64_t bytes = 8; bytes <= 64 << 10; bytes *= 2) {
        const Cost cost(kTrue, where, pattern);
        if (bytes <= cost.most(protocol))
          list.push_back({protocol, pattern, bytes, factor * cost.ns(protocol, bytes)});
      }
  return list;
}

void expect_near(const Coefficients::Line& fitted, const Coefficients::Line& wanted, double tolerance) {
  EXPECT_NEAR(static_cast<double>(fitted.start), static_cast<double>(wanted.start), 1000 * tolerance);
  EXPECT_NEAR(static_cast<double>(fitted.kib), static_cast<double>(wanted.kib), 1000 * tolerance);
}

TEST(Fit, FindsTheCoefficientsThatMadeTheTimes) {
  for (const uint32_t ranks : {2, 5}) {
    const Surroundings where{ranks};
    const Fit result = fit(samples(where), where, kBase);
    for (const Protocol protocol : kProtocols) {
      expect_near(result.coefficients.of(protocol), kTrue.of(protocol), 0.1);
      EXPECT_LT(result.error[static_cast<size_t>(protocol)], 0.01);
      EXPECT_GT(result.samples[static_cast<size_t>(protocol)], 0u);
    }
  }
}

// A rank that lost its CPU for a while in one line of the table.
TEST(Fit, IsNotLedAstrayByATimeFarTooLong) {
  const Surroundings where{2};
  auto list = samples(where);
  list[3].ns *= 10'000;
  const Fit result = fit(list, where, kBase);
  for (const Protocol protocol : kProtocols)
    expect_near(result.coefficients.of(protocol), kTrue.of(protocol), 3);
}

TEST(Fit, FindsTheTurnWhereRanksAreMoreThanCpus) {
  const Surroundings where{4, 2};
  Coefficients base = kTrue;
  base.turn = 7;
  const Fit result = fit(samples(where), where, base);
  EXPECT_NEAR(static_cast<double>(result.coefficients.turn), static_cast<double>(kTrue.turn), 1000);
  EXPECT_EQ(result.coefficients.small.start, kTrue.small.start);
}

TEST(Fit, KeepsWhatNothingWasMeasuredOf) {
  const Surroundings where{2};
  const std::vector<Sample> one = {{Protocol::kStream, pattern::kAllReduce, 64, 100}};
  EXPECT_EQ(fit(one, where, kBase).coefficients.text(), kBase.text());
  EXPECT_TRUE(fit(one, where, kBase).kept[static_cast<size_t>(Protocol::kStream)]);
  EXPECT_FALSE(fit(samples(where), where, kBase).kept[static_cast<size_t>(Protocol::kStream)]);
  EXPECT_EQ(fit({}, where, kBase).coefficients.text(), kBase.text());
}

// Faster than the flags alone, or faster with more bytes: noise. Nothing below 0 comes of it.
TEST(Fit, HasNoNegativeCoefficients) {
  const Surroundings where{2};
  const std::vector<Sample> falling = {{Protocol::kSmall, pattern::kAllReduce, 64, 100},
                                       {Protocol::kSmall, pattern::kAllReduce, 1024, 50},
                                       {Protocol::kStream, pattern::kAllReduce, 64, 10},
                                       {Protocol::kStream, pattern::kAllReduce, 1024, 500}};
  const Coefficients c = fit(falling, where, kBase).coefficients;
  for (const Protocol protocol : kProtocols) {
    EXPECT_GE(c.of(protocol).start, 0);
    EXPECT_GE(c.of(protocol).kib, 0);
  }
}

}  // namespace
}  // namespace floe::bench
