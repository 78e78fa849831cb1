// When waiting threads stop yielding.
#include "engine/spinner.h"

#include <gtest/gtest.h>

#include <thread>

namespace floe {
namespace {

int slice_of_others() {
  std::this_thread::sleep_for(Millis(4));
  return 0;
}

// Both wait for what a loaded machine may put off.
TEST(Crowd, IsWhatTakesSlicesInARowAndIsForgotten) {
  const auto give_up = Clock::now() + std::chrono::seconds(30);
  Crowd crowd;
  EXPECT_TRUE(crowd.yield(slice_of_others)) << "one is none";
  while (crowd.yield(slice_of_others)) ASSERT_LT(Clock::now(), give_up);
  while (!crowd.yield()) {
    ASSERT_LT(Clock::now(), give_up);
    std::this_thread::sleep_for(Millis(10));
  }
}

TEST(Spinner, SleepsAtOnceInACrowd) {
  Crowd crowd;
  const auto give_up = Clock::now() + std::chrono::seconds(30);
  for (bool slept_early = false; !slept_early;) {
    ASSERT_LT(Clock::now(), give_up);
    while (crowd.yield(slice_of_others)) ASSERT_LT(Clock::now(), give_up);
    slept_early = Spinner(0, &crowd).step();
  }
  EXPECT_FALSE(Spinner(0).step()) << "inside a host it yields";
}

}  // namespace
}  // namespace floe
