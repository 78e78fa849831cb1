// Copies into shared memory that a peer reads next, and that is used round and round.
//
// Whether ordinary or non-temporal stores are faster depends on where the peer's core is. Ordinary ones must
// first get back the lines that it has read: quick where the two cores share a cache, in which the new data
// stay for the reader, too; where they don't, non-temporal stores are several times faster. Nothing tells
// which it is (hypervisors move cores while a program runs), so both are timed, by the writer and by those
// who read, and non-temporal ones are used where they take the slower of the two sides much less time; again
// once a reader's distance or the writer's time has changed, which is looked at now and then, and after a
// long while if they have not.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/copy.h"
#include "base/ticks.h"
#include "shm/peer_distance.h"

namespace floe {

// What the two sides tell each other, in shared memory. Hints: without order, and any value will do.
struct CopyTrial {
  enum Way : uint32_t { kNone, kOrdinary, kNonTemporal };
  std::atomic<uint32_t> way;  // that the writer times now
};
struct ReadCosts {
  std::atomic<uint32_t> reads;                  // counts them
  std::array<std::atomic<uint32_t>, 3> by_way;  // ticks per KiB; 0: not known
};

// A moving average, to which a copy that was interrupted adds little. 0: there is none yet.
inline double averaged(double average, double cost) {
  constexpr double kWeight = 1.0 / 8, kOutlier = 3;
  return average == 0 ? cost : average + kWeight * (std::min(cost, kOutlier * average) - average);
}

// read(): takes `bytes` that a CopyOut has copied.
template <class Read>
void read_copied(const CopyTrial& trial, ReadCosts& costs, uint64_t bytes, const Read& read) {
  costs.reads.store(costs.reads.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const uint32_t way = trial.way.load(std::memory_order_relaxed);
  if (way == CopyTrial::kNone || way >= costs.by_way.size() || bytes == 0) [[likely]]
    return read();
  const uint64_t begin = ticks();
  read();
  const double cost = static_cast<double>(ticks() - begin) * 1024 / static_cast<double>(bytes);
  std::atomic<uint32_t>& known = costs.by_way[way];
  const double average = averaged(known.load(std::memory_order_relaxed), std::min(cost, 1e6));
  known.store(static_cast<uint32_t>(average) + 1, std::memory_order_relaxed);
}

class CopyOut {
 public:
  // Below this a copy ends in the store buffer, and the fence of non-temporal stores costs more than it
  // saves.
  static constexpr uint64_t kSmallest = 2048;

  // `lap`: bytes after which memory is used again. Lines that were last written the other way are slow to
  // overwrite, so a way must be used for a lap or two before it can be judged. `trial` and what its readers
  // answer outlive this.
  CopyOut(uint64_t lap, CopyTrial& trial, std::vector<const ReadCosts*> readers)
      : lap_(lap),
        left_(kLapsToChange * lap),
        trial_(&trial),
        readers_(std::move(readers)),
        distances_(readers_.size()) {}

  // What is copied is visible to whoever sees a store with release order that follows.
  void operator()(std::byte* to, const std::byte* from, uint64_t bytes) {
    if (bytes < kSmallest)
      copy_bytes(to, from, bytes);
    else
      copy_large(to, from, bytes);
  }
  bool non_temporal() const { return non_temporal_; }  // the way in use

 private:
  enum class Phase : uint8_t { kTimeUsual, kChange, kTimeOther, kUse };

  // From one look at the usual way to the next. Where sizes change, and with them the time of a byte, trying
  // a way that is five times slower must cost little.
  static constexpr uint32_t kLapsToChange = 2, kLapsOfUse = 128;
  // Until the other way is tried for the first time, when users' pages have been touched, and then where a
  // reader's distance has changed; twice as long each time that this was in vain.
  static constexpr uint32_t kFewestLaps = 32;
  // Until the other way is tried though nothing has changed: the laps of a trial are one of 300, no matter to
  // a 99th percentile. After the first trial it is one look, as that may have been of pages that were touched
  // for the first time, or while a reader tried its own ways to keep what it reads.
  static constexpr uint32_t kMostLooks = 8;

  void copy_large(std::byte* to, const std::byte* from, uint64_t bytes);
  void copy(bool non_temporal, std::byte* to, const std::byte* from, uint64_t bytes);
  void next_phase();
  void enter(Phase phase, uint64_t laps);
  double slowest(bool non_temporal, double writing) const;
  bool moved();
  bool due() const { return moved_ && looks_ * kLapsOfUse + laps_ >= laps_if_moved_; }

  uint64_t lap_;
  uint64_t left_;  // bytes of this phase
  CopyTrial* trial_;
  std::vector<const ReadCosts*> readers_;
  std::vector<PeerDistance> distances_;  // of each
  size_t looked_at_ = 0;                 // the last of them
  Phase phase_ = Phase::kUse;
  bool non_temporal_ = false;  // the usual way
  // Ticks per KiB; 0: not timed yet. The last one: the usual way's when it was chosen.
  double usual_ = 0, other_ = 0, chosen_at_ = 0;
  // Since it was chosen: whether a reader's distance has changed, looks at it, and laps since the last of
  // them.
  bool moved_ = false;
  uint32_t looks_ = 0, laps_ = kLapsOfUse - kFewestLaps;
  uint32_t laps_if_moved_ = kFewestLaps;
  uint32_t most_looks_ = 1;
};

}  // namespace floe
