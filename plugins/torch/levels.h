// How deep in callbacks of futures a thread is. What the program issues itself is level 0; what a callback
// issues is one level above the thread that attached it. Each level of a group has a communicator of its own,
// so that callbacks' collectives never race with those of the code around them.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <memory>

namespace floe_torch {

// Levels 0 to kLevels - 1.
constexpr int kLevels = 8;

// The callbacks of one future while a CompletionQueue runs them.
class Chain {
 public:
  Chain();  // on the thread that runs them

  // Since the last call, or the beginning: the thread did nothing, and waits for no collective of its own.
  // While the callbacks run; one thread at a time.
  bool stalled();

  // A collective that the callbacks have issued and whose future has not been completed.
  class UnderWay {
   public:
    explicit UnderWay(std::shared_ptr<Chain> chain);
    ~UnderWay();
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    const std::shared_ptr<Chain> chain_;
  };

 private:
  std::chrono::nanoseconds used() const;

  clockid_t clock_;  // the thread's processor time
  std::chrono::nanoseconds used_{0};
  std::atomic<int> under_way_{0};  // a count alone: relaxed
};

int this_level();
// Returns the level before.
int enter_level(int level);
// Null outside of chains.
const std::shared_ptr<Chain>& this_chain();

// This thread is at `level`, in `chain`, as long as this object.
class AtLevel {
 public:
  AtLevel(int level, std::shared_ptr<Chain> chain);
  ~AtLevel();
  AtLevel(const AtLevel&) = delete;
  AtLevel& operator=(const AtLevel&) = delete;

 private:
  const int level_before_;
  std::shared_ptr<Chain> chain_before_;
};

}  // namespace floe_torch
