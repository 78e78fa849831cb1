// How a thread waits: passes with pauses, then a few yields, then sleep.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "base/pause.h"
#include "engine/crowd.h"

namespace floe {

class Spinner {
 public:
  // A millisecond or so, as sleep is late to wake, and delays whoever wakes it: after 200 yields, not 2000,
  // 25 MiB between 2 unshaped hosts took 26 to 45 ms, not 17 to 20; after 64 of them, all_reduce of 1 KiB by
  // two ranks that arrive up to .8 ms apart ended 37 us after the second, not 5.5. Few where ranks of a host,
  // or threads of a rank, share CPUs.
  static constexpr uint32_t kYields = 2000, kFewYields = 64;

  // `crowd`: who else is there, if that is known.
  explicit Spinner(uint32_t spins, uint32_t yields, Crowd* crowd = nullptr)
      : spins_(spins), yields_(yields), crowd_(crowd) {}
  ~Spinner() { leave_crowd(); }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  void reset() {
    leave_crowd();
    count_ = 0;
    looks_ = Crowd::kLooks;
    yielded_ = {};
    wake();
  }
  void wake() { quiet_since_ = {}; }
  // True when it is time to sleep; `soon`: without yielding before. `runners`: see Group::awaits_runners().
  bool step(bool soon = false, bool runners = false) {
    if (runners && looks_ > 0) {
      --looks_;
      pause_cpu();
      return false;
    }
    if (count_ < spins_)
      pause_cpu();
    else if (count_ >= spins_ + (soon ? 0 : yields_) || (crowd_ && !crowd_->yield(&yielded_)))
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
  void leave_crowd() {
    if (crowd_ && count_ >= spins_) crowd_->leave();
  }

  uint32_t spins_, yields_;
  Crowd* crowd_;
  uint32_t count_ = 0;
  int looks_ = Crowd::kLooks;
  Clock::time_point yielded_{};      // see Crowd::yield
  Clock::time_point quiet_since_{};  // the clock's beginning: before the first sleep
};

}  // namespace floe
