// Whether what the network brings is far apart.
#pragma once

#include <atomic>
#include <chrono>

#include "base/clock.h"

namespace floe {

// Who sleeps comes back some tens of microseconds late. Where packets are farther apart than that, and more
// than one or two of them are waited for, that is 1 or 2 % of the time, and yielding until they come takes a
// CPU. So a context with a worker, whose program computes while data moves, sleeps there at once: all_reduce
// of 25 MiB by PyTorch's Gloo on two hosts at 1 Gbit/s took 239 ms and 232 ms of each rank's CPU, then 224
// and 34, and that of 256 KiB 2.1 ms of CPU, then .9. Any thread may use it: hints, from which nothing else
// follows.
class Pace {
 public:
  // Something is under way, and nothing was.
  void begin(Clock::time_point now) { begun_.store(now.time_since_epoch(), std::memory_order_relaxed); }
  // Something has moved after a time without.
  void moved(Clock::duration quiet) {
    const auto gap = gap_.load(std::memory_order_relaxed);
    gap_.store(gap + (quiet - gap) / 8, std::memory_order_relaxed);
  }
  bool is_slow(Clock::time_point now) const {
    return gap_.load(std::memory_order_relaxed) >= kFar &&
           now.time_since_epoch() - begun_.load(std::memory_order_relaxed) >= kLong;
  }

  static constexpr std::chrono::microseconds kFar{200}, kLong{300};

 private:
  std::atomic<Clock::duration> begun_{}, gap_{};  // gap_: the mean, of the last ones most
};

}  // namespace floe
