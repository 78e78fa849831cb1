// Whether a peer's core has come nearer or gone further away: by how long a word takes to come over that the
// peer has written lately. On a Zen 3 that is 30 to 60 ns through a shared cache, and 140 to 170 without.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/ticks.h"

namespace floe {

class PeerDistance {
 public:
  // Looks at a word that the peer changes all the time, on a line that this rank reads nowhere else. True:
  // the distance is another one than when that was last said, or at first.
  bool changed(const std::atomic<uint32_t>& word) {
    await_loads();
    const uint64_t begin = ticks();
    const uint32_t value = word.load(std::memory_order_relaxed);
    await_loads();
    const uint64_t took = ticks() - begin;
    if (value == seen_) return false;  // it did not have to come
    seen_ = value;
    return changed(took);
  }
  // The same for a word that has taken so long.
  bool changed(uint64_t took) {
    const auto now = static_cast<double>(took);
    if (known_ == 0) known_ = now;
    const double least = std::min(now, known_), most = std::max(now, known_);
    if (most < kSame * least + kCoarse) {
      strange_ = 0;
      known_ += (now - known_) / 8;
      return false;
    }
    if (++strange_ < kInARow) return false;  // one of ten is much shorter, or longer
    strange_ = 0;
    known_ = now;
    return true;
  }

 private:
  static constexpr uint32_t kInARow = 8;
  static constexpr double kSame = 1.75, kCoarse = 16;  // ticks: where the clock's are long it sees nothing

  double known_ = 0;  // ticks; 0: not yet
  uint32_t strange_ = 0;
  uint32_t seen_ = 0;
};

}  // namespace floe
