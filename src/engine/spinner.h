// How a thread waits: passes with pauses, then a few yields, then sleep.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "base/pause.h"

namespace floe {

class Spinner {
 public:
  explicit Spinner(uint32_t spins, uint32_t yields = kYields) : spins_(spins), yields_(yields) {}
  void reset() {
    count_ = 0;
    wake();
  }
  void wake() { quiet_since_ = {}; }
  // True when it is time to sleep.
  bool step() {
    if (count_ < spins_)
      pause_cpu();
    else if (count_ < spins_ + yields_)
      ::sched_yield();
    else
      return true;
    ++count_;
    return false;
  }
  // Bounds what any defect in waking could cost: after a while half of what nothing has moved for.
  Millis longest_sleep() {
    constexpr Millis kFirst(100), kLongest(500);
    const auto now = Clock::now();
    if (quiet_since_ == Clock::time_point()) quiet_since_ = now;
    const auto quiet = now - quiet_since_;
    return std::clamp(std::chrono::duration_cast<Millis>(quiet / 2), kFirst, kLongest);
  }

 private:
  static constexpr uint32_t kYields = 64;

  uint32_t spins_, yields_;
  uint32_t count_ = 0;
  Clock::time_point quiet_since_{};  // the clock's beginning: before the first sleep
};

}  // namespace floe
