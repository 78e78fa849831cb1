#include "shm/copy_out.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/ticks.h"

namespace floe {
namespace {

// Below this a copy ends in the store buffer, and the fence of non-temporal stores costs more than it saves.
constexpr uint64_t kSmallest = 2048;

#if defined(__x86_64__)
void copy_non_temporal(std::byte* to, const std::byte* from, uint64_t bytes) {
  constexpr uint64_t kLine = 64;
  const uint64_t head = -reinterpret_cast<uintptr_t>(to) % kLine;
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
void copy_non_temporal(std::byte* to, const std::byte* from, uint64_t bytes) { std::memcpy(to, from, bytes); }
#endif

// A moving average, to which a copy that was interrupted adds little.
void add(double& average, double cost) {
  constexpr double kWeight = 1.0 / 8, kOutlier = 3;
  average = average == 0 ? cost : average + kWeight * (std::min(cost, kOutlier * average) - average);
}

}  // namespace

void CopyOut::copy(bool non_temporal, std::byte* to, const std::byte* from, uint64_t bytes) {
  if (non_temporal)
    copy_non_temporal(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void CopyOut::operator()(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes < kSmallest) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  const bool other = phase_ == Phase::kChange || phase_ == Phase::kTimeOther;
  const bool timed = phase_ == Phase::kTimeUsual || phase_ == Phase::kTimeOther;
  const uint64_t begin = timed ? ticks() : 0;
  copy(non_temporal_ != other, to, from, bytes);
  if (timed) {
    // Until the stores have left this core.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    add(other ? other_ : usual_, static_cast<double>(ticks() - begin) / static_cast<double>(bytes));
  }
  if (bytes >= left_)
    next_phase();
  else
    left_ -= bytes;
}

void CopyOut::next_phase() {
  switch (phase_) {
    case Phase::kUse:
      phase_ = Phase::kTimeUsual;
      left_ = lap_;
      usual_ = other_ = 0;
      return;
    case Phase::kTimeUsual: {
      constexpr double kSame = 1.25;
      const bool same = usual_ < kSame * chosen_at_ && chosen_at_ < kSame * usual_;
      const bool try_other = !same || ++looks_ == kMostLooks;
      phase_ = try_other ? Phase::kChange : Phase::kUse;
      left_ = (try_other ? kLapsToChange : laps_of_use_) * lap_;
      return;
    }
    case Phase::kChange:
      phase_ = Phase::kTimeOther;
      left_ = lap_;
      return;
    case Phase::kTimeOther: {
      // The reader's side is not timed. It finds the one in a cache, the other in memory: where data goes
      // both ways that takes it two copies longer (Zen 4, 16 KiB: 2.2 us, 0.7), where it goes one way it is
      // hidden.
      constexpr double kReadingFromMemory = 2.5;
      const double ordinary = non_temporal_ ? other_ : usual_, streamed = non_temporal_ ? usual_ : other_;
      const bool before = std::exchange(non_temporal_, streamed * kReadingFromMemory < ordinary);
      chosen_at_ = non_temporal_ ? streamed : ordinary;
      looks_ = 0;
      // Where sizes change, and with them the time of a byte, trying a way that is five times slower must
      // cost little.
      laps_of_use_ = non_temporal_ != before ? kFewestLapsOfUse : std::min(2 * laps_of_use_, kMostLapsOfUse);
      phase_ = Phase::kUse;
      left_ = laps_of_use_ * lap_;
      return;
    }
  }
}

}  // namespace floe
