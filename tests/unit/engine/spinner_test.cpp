// When waiting threads stop yielding.
#include "engine/spinner.h"

#include <gtest/gtest.h>

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

TEST(Spinner, IsNoWaitOnceSomethingMoves) {
  CpuBoard board{};
  Crowd crowd(board);
  Spinner spinner(0, 2, &crowd);
  spinner.step();
  EXPECT_TRUE(board.last().waits());
  spinner.reset();
  EXPECT_FALSE(board.last().waits());
}

TEST(Spinner, IsNoWaitOnceItIsOver) {
  CpuBoard board{};
  Crowd crowd(board);
  Spinner(0, 2, &crowd).step();
  EXPECT_FALSE(board.last().waits());
}

}  // namespace
}  // namespace floe
