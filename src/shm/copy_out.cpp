#include "shm/copy_out.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/copy.h"
#include "base/ticks.h"

namespace floe {

void CopyOut::copy(bool non_temporal, std::byte* to, const std::byte* from, uint64_t bytes) {
  if (non_temporal)
    copy_non_temporal(to, from, bytes);
  else
    copy_bytes(to, from, bytes);
}

void CopyOut::copy_large(std::byte* to, const std::byte* from, uint64_t bytes) {
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

// Of the slowest side, as they work at the same time. All readers have answered, or none does: they read a
// trial's last lap before the next one ends.
double CopyOut::slowest(bool non_temporal, double writing) const {
  const auto way = non_temporal ? CopyTrial::kNonTemporal : CopyTrial::kOrdinary;
  for (const ReadCosts* reader : readers_)
    writing = std::max<double>(writing, reader->by_way[way].load(std::memory_order_relaxed));
  return writing;
}

// Looks at one reader.
bool CopyOut::moved() {
  if (readers_.empty()) return false;
  looked_at_ = (looked_at_ + 1) % readers_.size();
  return distances_[looked_at_].changed(readers_[looked_at_]->reads);
}

void CopyOut::next_phase() {
  switch (phase_) {
    case Phase::kUse:
      moved_ |= moved();
      if (++laps_ < kLapsOfUse && !due()) return enter(Phase::kUse, 1);
      usual_ = other_ = 0;
      return enter(Phase::kTimeUsual, 1);
    case Phase::kTimeUsual: {
      constexpr double kSame = 2;  // where a core has moved ordinary stores take three times as long and more
      const bool same = usual_ < kSame * chosen_at_ && chosen_at_ < kSame * usual_;
      if (!same || due() || ++looks_ == most_looks_) return enter(Phase::kChange, kLapsToChange);
      laps_ = 0;
      return enter(Phase::kUse, 1);
    }
    case Phase::kChange: return enter(Phase::kTimeOther, 1);
    case Phase::kTimeOther: {
      // With a shared cache they are within a sixth of each other, and ordinary stores are the better ones
      // even so; without, ordinary ones take half as long again at the least.
      constexpr double kMuch = 1.2;
      const double ordinary = non_temporal_ ? other_ : usual_, streamed = non_temporal_ ? usual_ : other_;
      const bool before =
          std::exchange(non_temporal_, kMuch * slowest(true, streamed) < slowest(false, ordinary));
      most_looks_ = chosen_at_ == 0 ? 1 : kMostLooks;
      chosen_at_ = non_temporal_ ? streamed : ordinary;
      const bool in_vain = moved_ && non_temporal_ == before;
      laps_if_moved_ = in_vain ? std::min(2 * laps_if_moved_, kMostLooks * kLapsOfUse) : kFewestLaps;
      laps_ = looks_ = 0;
      moved_ = false;
      return enter(Phase::kUse, 1);
    }
  }
}

}  // namespace floe
