// What a rank tells its peers on the host of the CPU it runs on, for Crowd (engine/crowd.h). Hints alone, of
// which nothing but the way of waiting follows: all relaxed.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace floe {

// A time and a CPU in a word, and a bit.
class CpuNote {
 public:
  CpuNote() = default;  // of no CPU
  CpuNote(Clock::time_point at, uint32_t cpu, bool waits)
      : word_(micros(at) << kAtShift | uint64_t{cpu & kCpus} << 1 | (waits ? 1 : 0)) {}
  explicit CpuNote(uint64_t word) : word_(word) {}

  uint64_t word() const { return word_; }
  bool is_of(uint32_t cpu) const { return word_ != 0 && (word_ >> 1 & kCpus) == (cpu & kCpus); }
  bool waits() const { return (word_ & 1) != 0; }
  // Whether it is of `time` or later.
  bool since(Clock::time_point time) const { return word_ >> kAtShift >= micros(time); }
  CpuNote without_wait() const { return CpuNote(word_ & ~uint64_t{1}); }

 private:
  static constexpr int kAtShift = 14;
  static constexpr uint64_t kCpus = (1 << (kAtShift - 1)) - 1;
  static uint64_t micros(Clock::time_point at) {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count());
  }
  uint64_t word_ = 0;
};

struct CpuBoard {
  CpuNote last() const { return CpuNote(last_word.load(std::memory_order_relaxed)); }
  void set_last(CpuNote note) { last_word.store(note.word(), std::memory_order_relaxed); }
  CpuNote slice() const { return CpuNote(slice_word.load(std::memory_order_relaxed)); }
  void set_slice(CpuNote note) { slice_word.store(note.word(), std::memory_order_relaxed); }

  // Where it last gave its CPU up to wait, and whether it has waited since.
  std::atomic<uint64_t> last_word;
  // Where and when the last time slice ended that it found to be of none of the ranks.
  std::atomic<uint64_t> slice_word;
};

}  // namespace floe
