// Whether others compute on CPUs that threads of ours yield.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "shm/cpu_board.h"

namespace floe {

// A yield is a time slice of whoever else computes on the CPU, some milliseconds, and who sleeps instead
// comes back at once when its peer wakes it. Not so if the slices are those of ranks of this host: they do
// what this one waits for, and sleep makes them wait for its wake-up (8 ranks on 2 CPUs, 1 MiB: 1.0 -> 1.4
// ms). So each rank tells its peers where it gave up the CPU, and who comes back late looks whether a peer
// had it. Any thread may use it.
class Crowd {
 public:
  explicit Crowd(CpuBoard& own) : own_(&own) {}

  // Ranks of this host, as long as they are members of something.
  void add(const CpuBoard& peer);
  void remove(const CpuBoard& peer);

  // Gives up the CPU. False, and at once, if there is a crowd: sleep. `yielded`: the end of a yield that
  // nothing but a look for work has followed, else {}; reading the clock is a good part of the price.
  bool yield(Clock::time_point* yielded) {
    const auto before = *yielded == Clock::time_point() ? Clock::now() : *yielded;
    const uint32_t cpu = this_cpu();
    own_->set_last({before, cpu, true});
    *yielded = {};
    if (is_at(before)) return false;
    ::sched_yield();
    *yielded = Clock::now();
    if (*yielded - before >= kSlice && this_cpu() == cpu) came_back(cpu, before, *yielded);
    return true;
  }
  // After waiting, and when there is something to do.
  void leave() {
    const CpuNote last = own_->last();
    if (last.waits()) own_->set_last(last.without_wait());
  }

  // Whether that rank runs on another CPU, as it seems.
  static bool runs_elsewhere(const CpuBoard& peer) {
    const CpuNote last = peer.last();
    return !last.waits() && !last.is_of(this_cpu());
  }

  // What a yield of a slice or more tells.
  void came_back(uint32_t cpu, Clock::time_point before, Clock::time_point after);
  bool is_at(Clock::time_point now) const {
    return now.time_since_epoch() < until_.load(std::memory_order_relaxed);
  }

  static constexpr Millis kSlice{2}, kRemembered{100};
  // Looks for what ranks do that run elsewhere, before the CPU is given up: about as long as a switch to
  // another rank and back takes (two-phase waiting: Karlin et al., SOSP 1991).
  static constexpr int kLooks = 30;

 private:
  static uint32_t this_cpu() { return static_cast<uint32_t>(std::max(0, ::sched_getcpu())); }
  bool was_others(uint32_t cpu, Clock::time_point before, Clock::time_point after);

  CpuBoard* own_;
  std::mutex mutex_;
  std::vector<const CpuBoard*> peers_;             // under mutex_
  std::atomic<Clock::duration> until_{}, last_{};  // hints: nothing else follows from them
};

}  // namespace floe
