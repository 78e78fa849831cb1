// When waiting threads stop yielding.
#include "engine/spinner.h"

#include <gtest/gtest.h>

#include "engine/pace.h"

namespace floe {
namespace {

// A yield of its own may take a slice, too.
TEST(Spinner, SleepsAtOnceInACrowd) {
  CpuBoard board{};
  Crowd crowd(board);
  const auto start = Clock::now();
  EXPECT_FALSE(Spinner(0, 1, &crowd).step()) << "it yields";
  const auto then = start + std::chrono::hours(1);
  for (const auto end : {then, then + Millis(4)}) crowd.came_back(0, end - Millis(4), end);
  Spinner spinner(0, 1, &crowd);
  EXPECT_TRUE(spinner.step());
  EXPECT_TRUE(board.last().waits()) << "peers know that it doesn't compute";
  EXPECT_FALSE(Spinner(0, 1).step()) << "who doesn't ask for a crowd yields";
}

TEST(Spinner, SleepsWithoutYieldsWhenAsked) {
  const auto steps = [](bool soon) {
    Spinner spinner(3, 1000);
    for (int step = 0;; ++step)
      if (spinner.step(soon)) return step;
  };
  EXPECT_EQ(steps(false), 1003);
  EXPECT_EQ(steps(true), 3);
}

TEST(Pace, IsSlowOnceMuchHasComeFarApart) {
  Pace pace;
  const auto begin = Clock::now(), late = begin + Pace::kLong;
  pace.begin(begin);
  EXPECT_FALSE(pace.is_slow(late)) << "nothing has come";
  for (int packet = 0; packet < 20; ++packet) pace.moved(Pace::kFar * 2);
  EXPECT_FALSE(pace.is_slow(begin + Pace::kLong / 2)) << "it may be over soon";
  EXPECT_TRUE(pace.is_slow(late));
  pace.begin(late);
  EXPECT_FALSE(pace.is_slow(late)) << "of what is under way since then";
  for (int packet = 0; packet < 20; ++packet) pace.moved(Pace::kFar / 10);
  EXPECT_FALSE(pace.is_slow(late + Pace::kLong)) << "packets are near each other again";
}

TEST(Spinner, IsNoWaitOnceSomethingMoves) {
  CpuBoard board{};
  Crowd crowd(board);
  Spinner spinner(0, 2, &crowd);
  spinner.step();
  EXPECT_TRUE(board.last().waits());
  spinner.reset();
  EXPECT_FALSE(board.last().waits());
}

TEST(Spinner, LooksForRanksThatRunElsewhereBeforeItYields) {
  CpuBoard board{};
  Crowd crowd(board);
  Spinner spinner(0, 1, &crowd);
  for (int wait = 0; wait < 2; ++wait) {
    for (int look = 0; look < Crowd::kLooks; ++look) {
      EXPECT_FALSE(spinner.step(true, true)) << "nor does it sleep";
      EXPECT_FALSE(board.last().waits()) << look;
    }
    spinner.step(false, true);
    EXPECT_TRUE(board.last().waits()) << "no longer than that";
    spinner.reset();  // something has moved
  }
}

TEST(Spinner, IsNoWaitOnceItIsOver) {
  CpuBoard board{};
  Crowd crowd(board);
  Spinner(0, 2, &crowd).step();
  EXPECT_FALSE(board.last().waits());
}

}  // namespace
}  // namespace floe
