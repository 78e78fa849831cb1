#include "base/clock.h"

#include <gtest/gtest.h>

namespace floe {
namespace {

TEST(Deadline, NoTimeMeansPassedAndNothingLeft) {
  const Deadline now = Deadline::in_ms(0);
  EXPECT_TRUE(now.passed());
  EXPECT_EQ(now.left().count(), 0);
}

// left() is a poll(2) timeout: rounding down would make the last millisecond a busy loop.
TEST(Deadline, LeftIsRoundedUp) {
  const Deadline soon = Deadline::in_ms(60'000);
  EXPECT_FALSE(soon.passed());
  EXPECT_FALSE(soon.passed(soon.at() - std::chrono::nanoseconds(1)));
  EXPECT_TRUE(soon.passed(soon.at()));
  EXPECT_GE(Clock::now() + soon.left(), soon.at());
}

TEST(Deadline, TheLongestTimesDoNotOverflow) {
  for (const Deadline far : {Deadline::in_ms(UINT64_MAX), Deadline::in(Millis::max()), Deadline::never()}) {
    EXPECT_FALSE(far.passed());
    EXPECT_GT(far.left(), std::chrono::hours(24));
  }
}

TEST(Deadline, EarlierIsTheSmallerOne) {
  const Deadline near = Deadline::in_ms(10), far = Deadline::in_ms(60'000);
  EXPECT_EQ(near.earlier(far).at(), near.at());
  EXPECT_EQ(far.earlier(near).at(), near.at());
}

}  // namespace
}  // namespace floe
