// Which of two ways to do something is the faster one, where nothing tells but the clock: where the cores are
// (hypervisors move them while a program runs), and how much of the cache other programs leave.
//
// Both are timed, for some operations in a row: what one leaves in the caches is work, or saves it, for those
// that follow. Then the faster one is used, and the other tried now and then.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "shm/copy_out.h"

namespace floe {

class WayTrial {
 public:
  // `first`: the way to begin with.
  explicit WayTrial(bool first = true) : usual_(first), way_(first) {}

  // The way that is used, but for trials.
  bool usual() const { return usual_; }
  bool next() const { return way_; }  // of the next operation, of which took() will tell
  // What that took, in any unit for a byte. Where operations overlap, one that ends after a change
  // of way counts for the new one: the first of each are left out.
  void took(double cost) {
    if (++operations_ <= kSettling) return;
    const bool first = chosen_at_ == 0 && cost_[way_] != 0;
    cost_[way_] = first ? std::min(cost_[way_], cost) : averaged(cost_[way_], cost);
    if (way_ != usual_) {
      if (operations_ == kTrial) choose();
    } else if (operations_ >= patience()) {
      used_ += operations_;
      operations_ = 0;
      way_ = !usual_;
      cost_[way_] = 0;
    }
  }

 private:
  // In operations: how many of a way what came before them still disturbs; a trial; those before the first
  // one, of which the fastest counts.
  static constexpr uint32_t kSettling = 2, kTrial = 3, kFirst = 5;
  // The same from one trial to the next: where the way in use takes longer than the other one did, where it
  // takes longer or less than it did, else, and where ways were in vain all the time.
  static constexpr uint32_t kSoon = 16, kFewest = 64, kOften = 400, kSeldom = 16 * kOften;
  static constexpr double kSame = 1.25;

  uint32_t patience() const {
    const double now = cost_[usual_];
    if (chosen_at_ == 0) return kFirst;
    if (now > kSame * cost_[!usual_]) return kSoon;
    return now > kSame * chosen_at_ || chosen_at_ > kSame * now ? kFewest : most_;
  }
  // After a trial. Ordinary stores are fast for some operations after others past the cache, until what they
  // keep has come there and pushes all out: whoever turns to a way and soon back waits longer.
  void choose() {
    const bool better = cost_[way_] < cost_[usual_];
    if (!better)
      most_ = kOften;
    else if (chosen_at_ != 0 && used_ < kOften)
      most_ = std::min(2 * most_, kSeldom);
    if (better) {
      usual_ = way_;
      used_ = 0;
    }
    way_ = usual_;
    chosen_at_ = cost_[usual_];
    operations_ = 0;
  }

  bool usual_, way_;              // way_: now, another one in a trial
  uint32_t operations_ = 0;       // that way
  uint64_t used_ = 0;             // the usual one, before the trials since it was chosen
  uint32_t most_ = kOften;        // until the next trial
  std::array<double, 2> cost_{};  // of either way; 0: not known
  double chosen_at_ = 0;          // the usual way's when it was chosen; 0: there has been no trial
};

// One for operations of about the same size: for larger ones the other way may be the faster one. In a
// program that had sent 4 MiB before, 8 and 16 MiB there and back near on a Zen 4 are 1.07 and 1.05 times as
// fast as with one trial for all, all_gather of 16 MiB 1.12 times.
class WayTrials {
 public:
  explicit WayTrials(uint64_t least_bytes, bool first = true) : least_(std::max<uint64_t>(least_bytes, 1)) {
    trials_.fill(WayTrial(first));
  }

  // Of less than that, up to two, four and eight times as much, and of more.
  WayTrial& of(uint64_t bytes) {
    return trials_[std::min<size_t>(std::bit_width(bytes / least_), trials_.size() - 1)];
  }

 private:
  uint64_t least_;
  std::array<WayTrial, 5> trials_;
};

}  // namespace floe
