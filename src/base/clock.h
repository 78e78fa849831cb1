// Time: one steady clock, and deadlines made from it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace floe {

using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

// Clock's time at the kernel's last tick, at most kTick ago: a fifth of the price.
constexpr Millis kTick(10);
inline Clock::time_point coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return Clock::time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A point in time that a wait ends at; `never()` is far enough not to matter and near enough not to
// overflow.
class Deadline {
 public:
  static Deadline in(Millis d) { return Deadline(Clock::now() + std::min(d, kLongest)); }
  static Deadline in_ms(uint64_t ms) { return after_ms(Clock::now(), ms); }
  static Deadline after_ms(Clock::time_point start, uint64_t ms) {
    return Deadline(start + Millis(std::min<uint64_t>(ms, static_cast<uint64_t>(kLongest.count()))));
  }
  static Deadline never() { return Deadline(kNever); }

  // never() costs no look at the clock.
  bool passed() const { return at_ != kNever && Clock::now() >= at_; }
  bool passed(Clock::time_point now) const { return now >= at_; }
  // Time left, 0 if it has passed, rounded up to a whole millisecond: a poll(2) timeout that never spins.
  Millis left() const { return std::max(Millis(0), std::chrono::ceil<Millis>(at_ - Clock::now())); }
  Clock::time_point at() const { return at_; }
  Deadline earlier(Deadline other) const { return Deadline(std::min(at_, other.at_)); }

 private:
  static constexpr Millis kLongest = std::chrono::hours(24 * 365);
  static constexpr Clock::time_point kNever{Clock::duration::max() / 2};
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace floe
