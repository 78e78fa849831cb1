#include "shm/copy_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
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
    EXPECT_GE(copy_while(CopyTrial::kNone), 32) << "until users' pages have been touched";
    EXPECT_EQ(1, copy_while(CopyTrial::kOrdinary)) << "the usual way at first";
    EXPECT_GT(copy_while(CopyTrial::kNone), 0);
    EXPECT_EQ(1, copy_while(CopyTrial::kNonTemporal));
    EXPECT_GT(copy_while(CopyTrial::kNone), 100) << "the one that was chosen";
    EXPECT_EQ(faster, trial.way) << "which is looked at again";
  }
}

// What the readers take decides, being more than the writer does.
TEST(CopyOut, IsNonTemporalOnlyWhereThatIsMuchFaster) {
  constexpr uint32_t kLong = 1'000'000'000;
  std::vector<std::byte> from(CopyOut::kSmallest), to(from.size());
  const auto chooses = [&](uint32_t ordinary, uint32_t non_temporal) {
    CopyTrial trial{};
    ReadCosts costs{};
    costs.by_way[CopyTrial::kOrdinary] = ordinary;
    costs.by_way[CopyTrial::kNonTemporal] = non_temporal;
    CopyOut copy_out(from.size(), trial, {&costs});
    while (trial.way != CopyTrial::kNonTemporal) copy_out(to.data(), from.data(), from.size());
    while (trial.way == CopyTrial::kNonTemporal) copy_out(to.data(), from.data(), from.size());
    return copy_out.non_temporal();
  };
  EXPECT_FALSE(chooses(kLong, 2 * kLong));
  EXPECT_FALSE(chooses(kLong / 10 * 11, kLong)) << "a tenth";
  EXPECT_TRUE(chooses(kLong / 10 * 15, kLong)) << "half as long again";
}

// It may have been of pages that were touched for the first time.
TEST(CopyOut, TheFirstTrialIsSoonFollowedByAnotherOne) {
  constexpr int kSoon = 150;
  std::vector<std::byte> from(CopyOut::kSmallest), to(from.size());
  CopyTrial trial{};
  ReadCosts costs{};
  for (auto& cost : costs.by_way) cost = 1'000'000'000;  // the same both ways: ordinary stores stay
  CopyOut copy_out(from.size(), trial, {&costs});
  const auto laps_until = [&](uint32_t way) {
    int laps = 0;
    for (; trial.way != way && laps < 10 * kSoon; ++laps) copy_out(to.data(), from.data(), from.size());
    return laps;
  };
  laps_until(CopyTrial::kNonTemporal);
  laps_until(CopyTrial::kNone);
  EXPECT_LT(laps_until(CopyTrial::kNonTemporal), kSoon);
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
// A reader whose word is in no cache at times, when it takes as long to come as from a core far away, and who
// reads what was copied with ordinary stores slowly.
class Reader {
 public:
  // Whether the other way is being tried then.
  bool lap(bool far) {
    for (int copy = 1; copy < kCopies; ++copy) copy_out_(to_.data(), from_.data(), from_.size());
    costs_.reads.fetch_add(1);
    if (far) _mm_clflush(&costs_.reads);
    _mm_mfence();
    copy_out_(to_.data(), from_.data(), from_.size());
    return trial_.way == CopyTrial::kOrdinary && copy_out_.non_temporal();
  }
  void choose() {
    costs_.by_way[CopyTrial::kOrdinary] = 1'000'000'000;
    while (!copy_out_.non_temporal()) lap(false);
  }

 private:
  // Of a lap: the time of a single one doubles at times, which is a reason for a trial, too.
  static constexpr int kCopies = 16;
  std::vector<std::byte> from_ = std::vector<std::byte>(CopyOut::kSmallest), to_ = from_;
  alignas(128) CopyTrial trial_{};
  alignas(128) ReadCosts costs_{};  // alone on its lines
  alignas(128) CopyOut copy_out_{kCopies * from_.size(), trial_, {&costs_}};
};

// Once in some attempts: what a word takes is measured, beside whatever else runs here, and it takes longer
// where a copy's end has the same low 12 bits.
TEST(CopyOut, TriesTheOtherWaySoonWhereAReaderHasMoved) {
  constexpr int kSoon = 64, kMost = 1100, kAttempts = 10;
  std::vector<std::unique_ptr<Reader>> readers;  // at different places
  int laps = kMost;
  for (int attempt = 0; attempt < kAttempts && laps >= kSoon; ++attempt) {
    Reader& reader = *readers.emplace_back(std::make_unique<Reader>());
    reader.choose();
    for (int i = 0; i < 64; ++i) reader.lap(false);
    for (laps = 0; laps < kMost && !reader.lap(true);) ++laps;
  }
  EXPECT_LT(laps, kSoon);
}

TEST(CopyOut, TriesTheOtherWayLessAndLessOftenWhereThatIsInVain) {
  constexpr int kLaps = 1000, kEach = 16;
  Reader reader;
  reader.choose();
  int trials = 0;
  for (int i = 0; i < kLaps; ++i) trials += reader.lap(i / kEach % 2 == 1) ? 1 : 0;
  EXPECT_LT(trials, 8);  // after 32 laps, 64, 128, 256, 512
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
