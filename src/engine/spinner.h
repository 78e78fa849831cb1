// How a thread waits: passes with pauses, then a few yields, then sleep.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "base/pause.h"

namespace floe {

// Whether others compute on CPUs that threads of ours yield: each yield is then a time slice of theirs, some
// milliseconds, and who sleeps instead comes back sooner. For waits between hosts: many ranks of one host
// have such slices from each other, and lose by sleeping (8 on 2 CPUs, 1 MiB: 1.0 -> 1.4 ms). Any thread may
// use it.
class Crowd {
 public:
  // False without yielding if there is one. `give_up`: how the CPU is given up; tests have another way.
  bool yield(int (*give_up)() = [] { return ::sched_yield(); }) {
    constexpr Millis kSlice(2), kRemembered(100);
    const auto before = now();
    if (before < until_.load(std::memory_order_relaxed)) return false;
    give_up();
    const auto after = now(), away = after - before;
    if (away < kSlice) return true;
    // A third of the time since the last such yield, or more.
    if (before - last_.load(std::memory_order_relaxed) < 2 * away)
      until_.store(after + kRemembered, std::memory_order_relaxed);
    last_.store(after, std::memory_order_relaxed);
    return true;
  }

 private:
  static Clock::duration now() { return Clock::now().time_since_epoch(); }

  std::atomic<Clock::duration> until_{}, last_{};  // hints: nothing else follows from them
};

class Spinner {
 public:
  // `crowd`: of a wait between hosts, else nullptr.
  explicit Spinner(uint32_t spins, Crowd* crowd = nullptr)
      : spins_(spins), yields_(crowd ? kYieldsBetweenHosts : kYields), crowd_(crowd) {}
  void reset() {
    count_ = 0;
    wake();
  }
  void wake() { quiet_since_ = {}; }
  // True when it is time to sleep.
  bool step() {
    if (count_ < spins_)
      pause_cpu();
    else if (count_ >= spins_ + yields_ || (crowd_ && !crowd_->yield()))
      return true;
    else if (!crowd_)
      ::sched_yield();
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
  // Sleep is late to wake: after 200 yields, not 2000, 25 MiB between 2 unshaped hosts took 26 to 45 ms, not
  // 17 to 20.
  static constexpr uint32_t kYields = 64, kYieldsBetweenHosts = 2000;

  uint32_t spins_, yields_;
  Crowd* crowd_;
  uint32_t count_ = 0;
  Clock::time_point quiet_since_{};  // the clock's beginning: before the first sleep
};

}  // namespace floe
