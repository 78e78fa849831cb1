// Whether a result that may not fit into the cache, beside what it is made from, is kept with ordinary
// stores, or all, half or a quarter of it past the cache.
//
// Past the cache its lines need not come to be overwritten. But where the cores share no cache that is
// slower: they come from the peer while the stores wait (broadcast of 16 MiB on a Zen 5: .70 ms and 1.09,
// and 1.01 and .67 without a shared cache). Nothing tells which it is (hypervisors move cores while a program
// runs), nor how much of the cache other programs leave, so both are timed, for some operations in a row:
// ordinary stores leave work to those that follow.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/copy.h"
#include "base/copy_in.h"
#include "base/ticks.h"
#include "shm/copy_out.h"
#include "shm/movement.h"

namespace floe {

class KeepTrial {
 public:
  bool usual() const { return usual_; }  // whether it is kept past the cache
  bool next() const { return way_; }     // the same for the next operation, of which took() will tell
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

  bool usual_ = true, way_ = true;  // way_: now, another one in a trial
  uint32_t operations_ = 0;         // that way
  uint64_t used_ = 0;               // the usual one, before the trials since it was chosen
  uint32_t most_ = kOften;          // until the next trial
  std::array<double, 2> cost_{};    // of either way; 0: not known
  double chosen_at_ = 0;            // the usual way's when it was chosen; 0: there has been no trial
};

// Those of results of about the same size: of larger ones a byte takes longer, and the other way may be the
// faster one. In a program that had sent 4 MiB before, 8 and 16 MiB there and back near on a Zen 4 are 1.07
// and 1.05 times as fast as with one trial for all, all_gather of 16 MiB 1.12 times.
class KeepTrials {
 public:
  // `cache_bytes`: this rank's part of the last-level cache.
  explicit KeepTrials(uint64_t cache_bytes) : least_(std::max<uint64_t>(cache_bytes / 4, 1)) {}

  // Of results of less than a quarter of that, up to half, all and twice as much, and of more.
  KeepTrial& of(uint64_t bytes) {
    return trials_[std::min<size_t>(std::bit_width(bytes / least_), trials_.size() - 1)];
  }

 private:
  uint64_t least_;
  std::array<KeepTrial, 5> trials_;
};

// One operation's result.
class Keeping {
 public:
  // Every how many chunks one goes past the cache, where that is faster. 0: none, as with what it is made
  // from the result fits into it, and into what other programs leave of it. With a quarter or half of the
  // chunks past it the others stay, and no more should go there than that takes (broadcast, near on a Zen 5,
  // in us, past it none, 1/8, 1/4, 1/2, all: 8 MiB 372, 174, 194, 240, 365, 10 MiB 595, 541, 262, 334, 490).
  static uint64_t stride(const Movement& what, uint64_t cache_bytes) {
    const uint64_t bytes = what.kept_bytes();
    if (what.args().pattern.reduces || bytes < cache_bytes / 2) return 0;
    return bytes < cache_bytes / 3 * 2 ? 4 : bytes < cache_bytes ? 2 : 1;
  }
  // What outlives an operation.
  struct State {
    explicit State(uint64_t cache) : cache_bytes(cache), trials(cache) {}
    uint64_t cache_bytes;  // this rank's part of the last-level cache
    KeepTrials trials;
    CopyIn copy_in;
  };
  // `takes`: this rank keeps what peers have.
  Keeping(State& state, const Movement& what, bool takes)
      : state_(&state),
        all_(what.kept_bytes()),
        stride_(stride(what, state.cache_bytes)),
        trial_(&state.trials.of(all_)),
        past_(stride_ != 0 && (takes ? trial_->next() : trial_->usual())) {}

  // For that chunk: of this rank's own block, or of one that a peer has.
  Movement::Copy& copy_own(uint64_t chunk) const {
    return past(chunk) ? copy_non_temporal : Movement::ordinary;
  }
  auto copy_peers(uint64_t chunk) const {
    return [this, chunk](std::byte* to, const std::byte* from, uint64_t bytes) {
      past(chunk) ? copy_non_temporal(to, from, bytes) : state_->copy_in(to, from, bytes, all_);
    };
  }
  bool past(uint64_t chunk) const { return past_ && chunk % stride_ == 0; }
  // keep(): keeps `bytes` that a peer has, with copy_peers().
  template <class Keep>
  void operator()(uint64_t bytes, const Keep& keep) {
    if (stride_ == 0) return keep();
    if (bytes_ == 0) begin_ = ticks();
    keep();
    bytes_ += bytes;
  }
  // After the last of them. All since the first counts: how it is kept also changes how long the peer takes
  // to copy what is next.
  void end() const {
    if (bytes_ != 0) trial_->took(static_cast<double>(ticks() - begin_) / static_cast<double>(bytes_));
  }

 private:
  State* state_;
  uint64_t all_;  // bytes
  uint64_t stride_;
  KeepTrial* trial_;
  bool past_;  // chunks of that stride go past the cache
  uint64_t begin_ = 0, bytes_ = 0;
};

}  // namespace floe
