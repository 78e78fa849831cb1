// Copies what another core has written: all in a row, or four pages at a time.
//
// A row is one stream to a CPU, which fetches only so far ahead of each. Where the cores share no cache four
// streams bring more (Zen 4: 64 KiB at 19.5 GB/s, not 16.8), as long as the second-level cache holds all of
// it: 512 KiB that go both ways take up to a tenth longer. Where the cores share one it is nearly level.
// Nothing tells which it is (hypervisors move cores while a program runs), so both are timed, now and then.
// An Intel does neither: see is_fetched_ahead(), which is up to a tenth faster than four streams.
#pragma once

#include <array>
#include <cstdint>

#include "base/copy.h"
#include "base/cpu.h"

namespace floe {

class CopyIn {
 public:
  // `bytes` of the `all` that an operation brings, or that go the other way meanwhile.
  void operator()(void* to, const void* from, uint64_t bytes, uint64_t all) {
    if (is_intel())
      all < kLeastAhead ? copy_bytes(to, from, bytes) : copy_from_core(to, from, bytes);
    else if (bytes < kFourPages || all < kLeast || all > kMost)
      copy_bytes(to, from, bytes);
    else
      copy_large(to, from, bytes);
  }

  bool by_pages() const;                           // how the next copy goes
  bool timed() const { return copies_ < kTrial; }  // whether it matters how long it takes
  // That has been done, and took so long, in any unit for a byte.
  void took(double cost);

 private:
  // 32 KiB of broadcast take a tenth longer (Emerald Rapids).
  static constexpr uint64_t kLeastAhead = 64 << 10;
  // 16 KiB alone have no time to get four streams going: they take 10 to 15 % longer.
  static constexpr uint64_t kLeast = 2 * kFourPages, kMost = 256 << 10;
  // Copies: in a row of one way, and of a trial.
  static constexpr uint32_t kSettling = 4, kRun = 16, kTrial = kSettling + 4 * kRun;
  // From one trial to the next: at first, when pages are touched for the first time, and then twice as many
  // each time, until those the slower way are less than one of 100.
  static constexpr uint32_t kFirstPeriod = 256, kLastPeriod = 4096;
  static constexpr double kBetter = .9;  // by which four pages at a time must be, or nothing changes

  void copy_large(void* to, const void* from, uint64_t bytes);

  uint32_t copies_ = 0;  // since the last trial began
  uint32_t period_ = kFirstPeriod;
  bool usual_ = false;            // whether by pages, but for trials
  std::array<double, 2> cost_{};  // of all copies of either way, in this trial
  double least_ = 0;              // of them
};

}  // namespace floe
