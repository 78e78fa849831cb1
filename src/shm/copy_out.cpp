#include "shm/copy_out.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/copy.h"
#include "base/ticks.h"

namespace floe {
#if defined(__x86_64__)
void copy_non_temporal(std::byte* to, const std::byte* from, uint64_t bytes) {
  constexpr uint64_t kLine = 64;
  const uint64_t head = std::min(-reinterpret_cast<uintptr_t>(to) % kLine, bytes);
  std::memcpy(to, from, head);
  uint64_t at = head;
  for (; at + kLine <= bytes; at += kLine)
    for (uint64_t i = 0; i < kLine; i += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + i)));
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // later stores, a flag's among them, come after these
}
#else
// Nothing has been measured on other machines.
void copy_non_temporal(std::byte* to, const std::byte* from, uint64_t bytes) { copy_bytes(to, from, bytes); }
#endif

void CopyOut::copy(bool non_temporal, std::byte* to, const std::byte* from, uint64_t bytes) {
  if (non_temporal)
    copy_non_temporal(to, from, bytes);
  else
    copy_bytes(to, from, bytes);
}

void CopyOut::operator()(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes < kSmallest) return copy_bytes(to, from, bytes);
  const bool other = phase_ == Phase::kChange || phase_ == Phase::kTimeOther;
  const bool timed = phase_ == Phase::kTimeUsual || phase_ == Phase::kTimeOther;
  const uint64_t begin = timed ? ticks() : 0;
  copy(non_temporal_ != other, to, from, bytes);
  if (timed) {
    // Until the stores have left this core.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    double& average = other ? other_ : usual_;
    average = averaged(average, static_cast<double>(ticks() - begin) * 1024 / static_cast<double>(bytes));
  }
  if (bytes >= left_)
    next_phase();
  else
    left_ -= bytes;
}

void CopyOut::enter(Phase phase, uint64_t laps) {
  phase_ = phase;
  left_ = laps * lap_;
  const bool timed = phase == Phase::kTimeUsual || phase == Phase::kTimeOther;
  const bool non_temporal = non_temporal_ != (phase == Phase::kTimeOther);
  trial_->way.store(!timed         ? CopyTrial::kNone
                    : non_temporal ? CopyTrial::kNonTemporal
                                   : CopyTrial::kOrdinary,
                    std::memory_order_relaxed);
}

// Of the slowest reader. All of them have answered, or none does: they read a trial's last lap before the
// next one ends.
double CopyOut::reading(bool non_temporal) const {
  uint32_t most = 0;
  for (const ReadCosts* reader : readers_)
    most = std::max(most, reader->by_way[non_temporal ? CopyTrial::kNonTemporal : CopyTrial::kOrdinary].load(
                              std::memory_order_relaxed));
  return most;
}

void CopyOut::next_phase() {
  switch (phase_) {
    case Phase::kUse: usual_ = other_ = 0; return enter(Phase::kTimeUsual, 1);
    case Phase::kTimeUsual: {
      constexpr double kSame = 1.25;
      const bool same = usual_ < kSame * chosen_at_ && chosen_at_ < kSame * usual_;
      if (same && ++looks_ != kMostLooks) return enter(Phase::kUse, laps_of_use_);
      return enter(Phase::kChange, kLapsToChange);
    }
    case Phase::kChange: return enter(Phase::kTimeOther, 1);
    case Phase::kTimeOther: {
      const double ordinary = non_temporal_ ? other_ : usual_, streamed = non_temporal_ ? usual_ : other_;
      const bool before = std::exchange(non_temporal_, streamed + reading(true) < ordinary + reading(false));
      chosen_at_ = non_temporal_ ? streamed : ordinary;
      looks_ = 0;
      // Where sizes change, and with them the time of a byte, trying a way that is five times slower must
      // cost little.
      laps_of_use_ = non_temporal_ != before ? kFewestLapsOfUse : std::min(2 * laps_of_use_, kMostLapsOfUse);
      return enter(Phase::kUse, laps_of_use_);
    }
  }
}

}  // namespace floe
