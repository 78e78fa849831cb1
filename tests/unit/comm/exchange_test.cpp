#include "comm/exchange.h"

#include <gtest/gtest.h>

namespace floe {
namespace {

TEST(FailureText, SurvivesTheWay) {
  const auto back = parse_failure(failure_text({FLOE_ERR_SYSTEM, "no descriptors left: 24 of 24"}));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(FLOE_ERR_SYSTEM, back->code());
  EXPECT_EQ("no descriptors left: 24 of 24", back->message());
}

TEST(FailureText, IsBounded) {
  EXPECT_LT(failure_text({FLOE_ERR_SYSTEM, std::string(1 << 20, 'x')}).size(), Exchange::kMaxValue);
}

TEST(FailureText, OfAnotherKindIsNone) {
  for (const char* text : {"", " ", "5", "5:late", "0 fine", "1 waits", "15 unknown", "-5 late", "x late",
                           "99999999999999999999 huge", "0x5 late"})
    EXPECT_FALSE(parse_failure(text).has_value()) << text;
}

}  // namespace
}  // namespace floe
