// Results do not depend on the floating-point environment of the thread that reduces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/detect_compiler_arch.h>

#include <cfenv>

#include "oracle.h"
#include "reduce/reduce.h"

#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace floe {
namespace {

std::vector<Bits> sum(int type, Bits a, Bits b) {
  const auto first = to_bytes(type, std::vector<Bits>(37, a));
  const auto second = to_bytes(type, std::vector<Bits>(37, b));
  std::vector<std::byte> result(first.size());
  reduce(std::vector<void*>{result.data()}, std::vector<const void*>{first.data(), second.data()}, 37, type,
         FLOE_SUM, 1);
  return to_elements(type, result);
}

class Environment : public ::testing::Test {
 protected:
  Environment() { std::fegetenv(&before_); }
  ~Environment() override {
    std::fesetenv(&before_);
    EXPECT_TRUE(set_isa("").ok());
  }

 private:
  std::fenv_t before_;
};

TEST_F(Environment, RoundsToNearestWhateverTheThreadRoundsTo) {
  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      std::fesetround(mode);
      const auto single = sum(FLOE_FLOAT32, 0x3F800000, 0x33000000);    // 1 + 2^-25
      const auto negative = sum(FLOE_FLOAT32, 0xBF800000, 0xB3400000);  // -1 - 1.5 * 2^-25
      const auto half = sum(FLOE_FLOAT16, 0x3C00, 0x1000);              // 1 + 2^-11
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(after, mode);
      EXPECT_THAT(single, ::testing::Each(0x3F800000));
      EXPECT_THAT(negative, ::testing::Each(0xBF800000));
      EXPECT_THAT(half, ::testing::Each(0x3C00));
    }
  }
}

#if HWY_ARCH_X86
TEST_F(Environment, KeepsSubnormalsInAThreadThatFlushesThem) {
  constexpr unsigned kFlush = 0x8040;  // flush-to-zero and denormals-are-zero
  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    _mm_setcsr(_mm_getcsr() | kFlush);
    const auto single = sum(FLOE_FLOAT32, 3, 5);
    const auto twice = sum(FLOE_FLOAT64, 3, 5);
    const auto half = sum(FLOE_FLOAT16, 3, 5);
    const auto brain = sum(FLOE_BFLOAT16, 3, 5);
    const auto eighth = sum(FLOE_FLOAT8_E4M3, 3, 4);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(after & ~kFlush);
    EXPECT_EQ(after & kFlush, kFlush);
    for (const auto* result : {&single, &twice, &half, &brain})
      EXPECT_THAT(*result, ::testing::Each(8)) << isa;
    EXPECT_THAT(eighth, ::testing::Each(7)) << isa;
  }
}
#endif

}  // namespace
}  // namespace floe
