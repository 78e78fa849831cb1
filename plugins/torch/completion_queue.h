// The order in which the futures of one level of a group are completed.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "completion_pool.h"
#include "levels.h"

namespace floe_torch {

// Futures are completed in the order in which they were asked for, each when the callbacks of the one before
// have returned: so their callbacks issue their own collectives in the same order on every rank.
//
// A callback may block on a future that is behind it, and an operation in front may wait for what another
// rank does only after a future that is behind. So the front that has not moved for kPatience lets the next
// one pass, unless it computes or waits for a collective of its own.
class CompletionQueue : public std::enable_shared_from_this<CompletionQueue> {
 public:
  // Completes a future, which runs its callbacks.
  using Task = std::function<void()>;
  class Place;

  // Of level `level`: callbacks run one above.
  CompletionQueue(CompletionPool& pool, int level) : pool_(pool), level_(level) {}
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  bool empty();
  // Takes the place at the end.
  std::shared_ptr<Place> join();
  // The future of `place` can be completed. True: now, the caller sees to it that run(place) is called.
  bool ready(const std::shared_ptr<Place>& place, Task task);
  // Completes the future, and those behind it that can be. On a thread of the pool.
  void run(std::shared_ptr<Place> place);

 private:
  // All with the lock held.
  std::shared_ptr<Place> start_front();
  bool someone_waits() const;
  void watch();

  std::shared_ptr<Place> leave(const Place& place);
  void run_watch();

  CompletionPool& pool_;
  const int level_;
  std::mutex mutex_;
  std::condition_variable moved_;  // another one is in front
  std::deque<std::shared_ptr<Place>> places_;
  bool watching_ = false;
};

}  // namespace floe_torch
