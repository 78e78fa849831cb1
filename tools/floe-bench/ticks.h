// Time for single calls of a few dozen nanoseconds: base/ticks.h in microseconds, in order with the calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/ticks.h"

namespace floe::bench {

class Ticks {
 public:
  // Measures the counter's rate and what reading it costs.
  Ticks() {
    const auto wall = std::chrono::steady_clock::now();
    const uint64_t begin = now();
    while (std::chrono::steady_clock::now() - wall < std::chrono::milliseconds(20)) {
    }
    const uint64_t end = now();
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - wall;
    us_per_tick_ = us.count() / static_cast<double>(end - begin);
    for (int i = 0; i < 1000; ++i) {
      const uint64_t first = now();
      overhead_ = std::min(overhead_, now() - first);
    }
  }

  // Not before everything that precedes it, nor after anything that follows it.
  static uint64_t now() {
#if defined(__x86_64__)
    _mm_lfence();
    const uint64_t at = ticks();
    _mm_lfence();
    return at;
#else
    return ticks();
#endif
  }

  // Between two readings, less what a reading costs.
  double us(uint64_t begin, uint64_t end) const {
    const uint64_t ticks = end - begin;
    return static_cast<double>(ticks - std::min(ticks, overhead_)) * us_per_tick_;
  }

 private:
  double us_per_tick_ = 0;
  uint64_t overhead_ = ~uint64_t{0};
};

}  // namespace floe::bench
