// The choice between two ways to copy what another core has written.
#include "base/copy_in.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace floe {
namespace {

constexpr int kPeriod = 4096;

// How many of `copies` go by pages, where they take cost(copy, by_pages).
template <class Cost>
int by_pages_of(CopyIn& copy_in, int copies, const Cost& cost) {
  int count = 0;
  for (int copy = 0; copy < copies; ++copy) {
    const bool by_pages = copy_in.by_pages();
    copy_in.took(cost(copy, by_pages));
    count += by_pages ? 1 : 0;
  }
  return count;
}
double far(int, bool by_pages) { return by_pages ? 8 : 10; }
double near(int, bool by_pages) { return by_pages ? 10 : 8; }

TEST(CopyIn, TheFasterWayIsUsedAndTheOtherTriedSeldom) {
  CopyIn apart, together;
  EXPECT_GT(by_pages_of(apart, 4 * kPeriod, far), 4 * kPeriod * 98 / 100);
  EXPECT_GT(by_pages_of(apart, 4 * kPeriod, far), 4 * kPeriod * 99 / 100);
  by_pages_of(together, 4 * kPeriod, near);
  EXPECT_LT(by_pages_of(together, 4 * kPeriod, near), 4 * kPeriod / 100);
}

TEST(CopyIn, AChangeIsSeenAtTheNextTrial) {
  CopyIn copy_in;
  by_pages_of(copy_in, 4 * kPeriod, near);
  by_pages_of(copy_in, kPeriod, far);
  EXPECT_GT(by_pages_of(copy_in, kPeriod, far), kPeriod * 99 / 100);
  by_pages_of(copy_in, kPeriod, near);
  EXPECT_LT(by_pages_of(copy_in, kPeriod, near), kPeriod / 100);
}

// As where pages were touched for the first time.
TEST(CopyIn, AFalseBeginningIsMendedSoon) {
  CopyIn copy_in;
  by_pages_of(copy_in, 100, near);
  ASSERT_FALSE(copy_in.by_pages());
  by_pages_of(copy_in, 256, far);
  EXPECT_TRUE(copy_in.by_pages());
}

TEST(CopyIn, NothingChangesForLittle) {
  CopyIn copy_in;
  by_pages_of(copy_in, 100, [](int, bool by_pages) { return by_pages ? 9.5 : 10; });
  EXPECT_FALSE(copy_in.by_pages());
}

// The first parts of a message wait for lines that are still on their way, whichever way they are copied.
TEST(CopyIn, WhereAPartLiesInItsMessageIsNotTakenForTheWay) {
  for (const int parts : {2, 3, 4, 5, 8, 16}) {
    CopyIn copy_in;
    for (int copy = 0; copy < 10'000; ++copy) {
      copy_in.took(copy % parts == 0 ? 20 : 10);
      EXPECT_TRUE(copy_in.timed() || !copy_in.by_pages()) << parts << " parts, copy " << copy;
    }
  }
}

TEST(CopyIn, AnInterruptionChangesNothing) {
  for (int interrupted = 0; interrupted < 64; ++interrupted) {
    CopyIn copy_in;
    const auto cost = [&](int copy, bool by_pages) {
      return copy == interrupted ? 1000 : far(copy, by_pages);
    };
    by_pages_of(copy_in, 100, cost);
    EXPECT_TRUE(copy_in.by_pages()) << interrupted;
  }
}

TEST(CopyIn, CopiesWhateverItsLength) {
  constexpr uint64_t kMost = 300 << 10;
  std::vector<std::byte> from(kMost);
  for (uint64_t i = 0; i < kMost; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 4096);
  CopyIn copy_in;
  for (const uint64_t bytes : {0, 1, 16383, 16384, 32768, 40000, 262144, 262145}) {
    for (int copy = 0; copy < 40; ++copy) {  // by either way
      std::vector<std::byte> to(kMost);
      copy_in(to.data(), from.data(), bytes, bytes);
      ASSERT_TRUE(std::equal(from.begin(), from.begin() + static_cast<int64_t>(bytes), to.begin())) << bytes;
      ASSERT_EQ(std::count(to.begin() + static_cast<int64_t>(bytes), to.end(), std::byte{}),
                static_cast<int64_t>(kMost - bytes));
    }
  }
}

}  // namespace
}  // namespace floe
