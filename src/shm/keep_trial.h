// Whether a result that does not fit into the cache is kept with ordinary stores or past it.
//
// Past the cache its lines need not come to be overwritten. But where the cores share no cache that is
// slower: they come from the peer while the stores wait (broadcast of 16 MiB on a Zen 5: .70 ms and 1.09,
// and 1.01 and .67 without a shared cache). Nothing tells which it is (hypervisors move cores while a program
// runs), so both are timed, for a whole operation each: ordinary stores leave work to those that follow.
#pragma once

#include <array>
#include <cstdint>

#include "base/copy.h"
#include "base/ticks.h"
#include "shm/copy_out.h"
#include "shm/movement.h"

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

// One operation's result.
class Keeping {
 public:
  // From where on the C library's memcpy copies past the cache, but it sees one chunk at a time.
  static bool is_large(const Movement& what, uint64_t cache_bytes) {
    return !what.args().pattern.reduces && what.kept_bytes() > cache_bytes / 4 * 3;
  }
  // `takes`: this rank keeps what peers have.
  Keeping(KeepTrial& trial, bool large, bool takes)
      : trial_(&trial), large_(large), past_(large && (takes ? trial.next() : trial.past())) {}

  Movement::Copy& copy() const { return past_ ? copy_non_temporal : Movement::ordinary; }
  // keep(): keeps `bytes` that a peer has, with copy().
  template <class Keep>
  void operator()(uint64_t bytes, const Keep& keep) {
    if (!large_) return keep();
    const uint64_t begin = ticks();
    keep();
    ticks_ += ticks() - begin;
    bytes_ += bytes;
  }
  // After the last of them.
  void end() const {
    if (bytes_ != 0) trial_->took(past_, static_cast<double>(ticks_) / static_cast<double>(bytes_));
  }

 private:
  KeepTrial* trial_;
  bool large_;  // it does not fit into the cache
  bool past_;   // it is kept past it
  uint64_t ticks_ = 0, bytes_ = 0;
};

}  // namespace floe
