// Copies into shared memory that a peer reads next, and that is used round and round.
//
// Whether ordinary or non-temporal stores are faster depends on where the peer's core is. Ordinary ones must
// first get back the lines that it has read: quick where the two cores share a cache, in which the new data
// stay for the reader, too; where they don't, non-temporal stores are several times faster. Nothing tells
// which it is (hypervisors move cores while a program runs), so both are timed, and the faster one is used;
// again once that one's time has changed, which is looked at now and then, and after a long while if it has
// not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace floe {

class CopyOut {
 public:
  // `lap`: bytes after which memory is used again. Lines that were last written the other way are slow to
  // overwrite, so a way must be used for a lap or two before it can be judged.
  explicit CopyOut(uint64_t lap) : lap_(lap), left_(kLapsToChange * lap) {}

  // What is copied is visible to whoever sees a store with release order that follows.
  void operator()(std::byte* to, const std::byte* from, uint64_t bytes);

 private:
  enum class Phase : uint8_t { kTimeUsual, kChange, kTimeOther, kUse };

  static constexpr uint64_t kLapsToChange = 2, kFewestLapsOfUse = 128, kMostLapsOfUse = 1024;
  static constexpr uint32_t kMostLooks = 32;  // until the other way is tried though nothing has changed

  void copy(bool non_temporal, std::byte* to, const std::byte* from, uint64_t bytes);
  void next_phase();

  uint64_t lap_;
  uint64_t left_;  // bytes of this phase
  Phase phase_ = Phase::kUse;
  bool non_temporal_ = false;  // the usual way
  // Ticks a byte; 0: not timed yet. The last one: the usual way's when it was chosen.
  double usual_ = 0, other_ = 0, chosen_at_ = 0;
  // Until the next look; more each time that a trial changes nothing.
  uint64_t laps_of_use_ = kFewestLapsOfUse;
  uint32_t looks_ = 0;  // at the usual way since it was chosen
};

}  // namespace floe
