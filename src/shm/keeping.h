// Whether a result that may not fit into the cache, beside what it is made from, is kept with ordinary
// stores, or all, half or a quarter of it past the cache.
//
// Past the cache its lines need not come to be overwritten. But where the cores share no cache that is
// slower: they come from the peer while the stores wait (broadcast of 16 MiB on a Zen 5: .70 ms and 1.09,
// and 1.01 and .67 without a shared cache). So it is tried: `true` is past the cache.
#pragma once

#include <cstdint>

#include "base/copy.h"
#include "base/copy_in.h"
#include "base/ticks.h"
#include "shm/movement.h"
#include "shm/way_trial.h"

namespace floe {

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
    explicit State(uint64_t cache) : cache_bytes(cache), trials(cache / 4) {}
    uint64_t cache_bytes;  // this rank's part of the last-level cache
    WayTrials trials;
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
  WayTrial* trial_;
  bool past_;  // chunks of that stride go past the cache
  uint64_t begin_ = 0, bytes_ = 0;
};

}  // namespace floe
