#include "shm/copy_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace floe {
namespace {

// With a lap this short each way has its turn every few copies.
TEST(CopyOut, CopiesEveryByteAndNoOther) {
  constexpr uint64_t kMost = 20'000, kGuard = 128;
  CopyTrial trial{};
  CopyOut copy_out(8192, trial, {});
  std::vector<std::byte> from(kMost + kGuard), to(kMost + 2 * kGuard), wanted;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
  for (uint64_t turn = 0; turn < 4000; ++turn) {
    const uint64_t bytes = turn * 977 % kMost, begin = turn % 65, source = turn * 5 % kGuard;
    std::fill(to.begin(), to.end(), std::byte{0xEE});
    wanted = to;
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(source), bytes,
                wanted.begin() + static_cast<ptrdiff_t>(begin));
    copy_out(to.data() + begin, from.data() + source, bytes);
    ASSERT_TRUE(to == wanted) << bytes << " bytes from " << source << " to " << begin << ", copy " << turn;
  }
}

TEST(CopyOut, NothingFromNowhere) {
  CopyTrial trial{};
  CopyOut(64, trial, {})(nullptr, nullptr, 0);
}

// Of two readers the slower one counts, by far: what the writer itself takes is no matter here.
TEST(CopyOut, UsesWhatIsReadFaster) {
  constexpr uint32_t kLong = 1'000'000'000;
  std::vector<std::byte> from(CopyOut::kSmallest), to(from.size());
  for (const uint32_t faster : {CopyTrial::kOrdinary, CopyTrial::kNonTemporal}) {
    CopyTrial trial{};
    ReadCosts fast{}, slow{};
    for (auto& cost : slow.by_way) cost = kLong;
    slow.by_way[faster] = fast.by_way[faster] = 1;
    CopyOut copy_out(from.size(), trial, {&fast, &slow});
    const auto copy_while = [&](uint32_t way) {
      int copies = 0;
      for (; trial.way == way && copies < 10'000; ++copies) copy_out(to.data(), from.data(), from.size());
      return copies;
    };
    EXPECT_GT(copy_while(CopyTrial::kNone), 0);
    EXPECT_EQ(1, copy_while(CopyTrial::kOrdinary)) << "the usual way at first";
    EXPECT_GT(copy_while(CopyTrial::kNone), 0);
    EXPECT_EQ(1, copy_while(CopyTrial::kNonTemporal));
    EXPECT_GT(copy_while(CopyTrial::kNone), 100) << "the one that was chosen";
    EXPECT_EQ(faster, trial.way) << "which is looked at again";
  }
}

// A peer that comes near changes nothing for a writer past the cache: only a trial tells.
TEST(CopyOut, TriesTheOtherWayAgainHoweverOftenThatHasChangedNothing) {
  constexpr int kMostLaps = 1100;
  std::vector<std::byte> from(CopyOut::kSmallest), to(from.size());
  CopyTrial trial{};
  ReadCosts costs{};
  costs.by_way[CopyTrial::kOrdinary] = 1'000'000'000;
  CopyOut copy_out(from.size(), trial, {&costs});
  const auto laps_until = [&](uint32_t way) {
    int laps = 0;
    for (; trial.way != way && laps < 10 * kMostLaps; ++laps) copy_out(to.data(), from.data(), from.size());
    return laps;
  };
  laps_until(CopyTrial::kNonTemporal);  // it is chosen then
  for (int round = 0; round < 10; ++round) {
    EXPECT_LE(laps_until(CopyTrial::kOrdinary), kMostLaps) << "round " << round;
    laps_until(CopyTrial::kNone);
  }
}

#if defined(__x86_64__)
// Laps until the other way is tried, of a reader that goes far away: its word is in no cache then.
int laps_after_a_move() {
  constexpr int kMost = 1100;
  std::vector<std::byte> from(CopyOut::kSmallest), to(from.size());
  alignas(128) CopyTrial trial{};
  alignas(128) ReadCosts costs{};  // alone on its lines
  costs.by_way[CopyTrial::kOrdinary] = 1'000'000'000;
  CopyOut copy_out(from.size(), trial, {&costs});
  const auto lap = [&](bool far) {
    costs.reads.fetch_add(1);
    if (far) _mm_clflush(&costs.reads);
    _mm_mfence();
    copy_out(to.data(), from.data(), from.size());
  };
  while (trial.way != CopyTrial::kNonTemporal) lap(false);  // it is chosen then
  for (int i = 0; i < 64; ++i) lap(false);
  int laps = 0;
  for (; trial.way != CopyTrial::kOrdinary && laps < kMost; ++laps) lap(true);
  return laps;
}

// Once in some attempts: what a word takes is measured, beside whatever else runs here.
TEST(CopyOut, TriesTheOtherWaySoonWhereAReaderHasMoved) {
  constexpr int kSoon = 64, kAttempts = 10;
  int laps = kSoon;
  for (int i = 0; i < kAttempts && laps >= kSoon; ++i) laps = laps_after_a_move();
  EXPECT_LT(laps, kSoon);
}
#endif

TEST(ReadCopied, CountsReads) {
  CopyTrial trial{};
  ReadCosts costs{};
  for (const uint32_t way : {CopyTrial::kNone, CopyTrial::kOrdinary}) {
    trial.way = way;
    const uint32_t before = costs.reads;
    read_copied(trial, costs, 4096, [] {});
    EXPECT_EQ(before + 1, costs.reads);
  }
}

TEST(ReadCopied, IsTimedInATrialOnly) {
  CopyTrial trial{};
  ReadCosts costs{};
  int reads = 0;
  const auto read = [&] { ++reads; };
  for (const uint32_t way : {0u, 3u, ~0u}) {
    trial.way = way;
    read_copied(trial, costs, 4096, read);
    for (const auto& cost : costs.by_way) EXPECT_EQ(0u, cost);
  }
  trial.way = CopyTrial::kNonTemporal;
  read_copied(trial, costs, 4096, read);
  EXPECT_EQ(4, reads);
  EXPECT_EQ(0u, costs.by_way[CopyTrial::kOrdinary]);
  EXPECT_GT(costs.by_way[CopyTrial::kNonTemporal], 0u);
}

}  // namespace
}  // namespace floe
