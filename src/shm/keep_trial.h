// Whether a result that does not fit into the cache is kept with ordinary stores or past it.
//
// Past the cache its lines need not come to be overwritten. But where the cores share no cache that is
// slower: they come from the peer while the stores wait (broadcast of 16 MiB on a Zen 5: .70 ms and 1.09,
// and 1.01 and .67 without a shared cache). Nothing tells which it is (hypervisors move cores while a program
// runs), so both are timed, for a whole operation each: ordinary stores leave work to those that follow.
#pragma once

#include <array>
#include <cstdint>

#include "shm/copy_out.h"

namespace floe {

class KeepTrial {
 public:
  bool past() const { return past_; }  // the way in use
  // Whether the next operation keeps past the cache, of which took() will tell.
  bool next() {
    for (const bool past : {true, false})
      if (cost_[past] == 0) return past;
    ++since_trial_;
    const bool changed = cost_[past_] > kSame * chosen_at_ || chosen_at_ > kSame * cost_[past_];
    if (since_trial_ < (changed ? kFewest : kMost)) return past_;
    since_trial_ = 0;
    return !past_;
  }
  // What one took, in any unit for a byte.
  void took(bool past, double cost) {
    const bool trial = cost_[past] == 0 || past != past_;
    cost_[past] = trial ? cost : averaged(cost_[past], cost);
    if (!trial || cost_[!past] == 0) return;
    past_ = cost_[true] < cost_[false];
    chosen_at_ = cost_[past_];
  }

 private:
  static constexpr double kSame = 1.25;
  static constexpr uint32_t kFewest = 32, kMost = 128;  // operations from one trial to the next

  std::array<double, 2> cost_{};  // of either way; 0: not known yet
  bool past_ = true;              // the way in use
  double chosen_at_ = 0;          // its cost then
  uint32_t since_trial_ = 0;
};

}  // namespace floe
