#include "boot/random.h"

#include <gmock/gmock.h>

#include <set>

namespace floe {
namespace {

TEST(Random, HexHasTwoDigitsForEachByte) {
  EXPECT_EQ(random_hex(0), "");
  for (const size_t bytes : {1, 16, 300}) {
    const std::string text = random_hex(bytes);
    EXPECT_EQ(text.size(), 2 * bytes);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos) << text;
  }
}

TEST(Random, DoesNotRepeatAndUsesEveryBit) {
  std::set<uint64_t> seen;
  uint64_t ones = 0, zeros = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = random_u64();
    EXPECT_TRUE(seen.insert(value).second);
    ones |= value;
    zeros |= ~value;
  }
  EXPECT_EQ(ones, UINT64_MAX);
  EXPECT_EQ(zeros, UINT64_MAX);
}

}  // namespace
}  // namespace floe
