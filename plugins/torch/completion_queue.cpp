#include "completion_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace floe_torch {
namespace {

constexpr std::chrono::seconds kPatience(1);

}  // namespace

// Under the queue's lock.
class CompletionQueue::Place {
 public:
  Task task;
  std::shared_ptr<Chain> chain;  // while the task runs
  bool ready = false;
  bool running = false;  // or about to
  bool passed = false;   // not in the queue any more, others went on
};

bool CompletionQueue::empty() {
  const std::lock_guard lock(mutex_);
  return places_.empty();
}

std::shared_ptr<CompletionQueue::Place> CompletionQueue::join() {
  const std::lock_guard lock(mutex_);
  return places_.emplace_back(std::make_shared<Place>());
}

bool CompletionQueue::ready(const std::shared_ptr<Place>& place, Task task) {
  const std::lock_guard lock(mutex_);
  place->task = std::move(task);
  place->ready = true;
  place->running = place->passed || places_.front() == place;
  if (!place->running && !watching_) watch();
  return place->running;
}

void CompletionQueue::run(std::shared_ptr<Place> place) {
  const CompletionPool::MayBlock callbacks(pool_);
  while (place) {
    const auto chain = std::make_shared<Chain>();
    Task task;
    {
      const std::lock_guard lock(mutex_);
      place->chain = chain;
      task = std::move(place->task);
    }
    {
      const AtLevel above(level_ + 1, chain);
      task();
      task = nullptr;  // what it held may be the last reference
    }
    place = leave(*place);
  }
}

// Returns who is next, on this thread.
std::shared_ptr<CompletionQueue::Place> CompletionQueue::leave(const Place& place) {
  const std::lock_guard lock(mutex_);
  if (place.passed) return nullptr;
  places_.pop_front();
  return start_front();
}

std::shared_ptr<CompletionQueue::Place> CompletionQueue::start_front() {
  moved_.notify_all();
  // What waits behind a front that is not ready needs the watch, which may have ended.
  if (!watching_ && someone_waits()) watch();
  if (places_.empty() || !places_.front()->ready || places_.front()->running) return nullptr;
  places_.front()->running = true;
  return places_.front();
}

// ---- When the front does not move -----------------------------------------------------------------------

bool CompletionQueue::someone_waits() const {
  return places_.size() > 1 &&
         std::any_of(places_.begin() + 1, places_.end(), [](const auto& place) { return place->ready; });
}

void CompletionQueue::watch() {
  watching_ = true;
  pool_.enqueue([self = shared_from_this()] { self->run_watch(); });
}

void CompletionQueue::run_watch() {
  const CompletionPool::MayBlock waits(pool_);
  std::unique_lock lock(mutex_);
  while (someone_waits()) {
    const auto front = places_.front();
    const auto moved = [&] { return places_.empty() || places_.front() != front; };
    if (moved_.wait_for(lock, kPatience, moved)) continue;
    // Without a chain it is just about to run.
    if (front->running && !(front->chain && front->chain->stalled())) continue;
    front->passed = true;
    places_.pop_front();
    if (auto next = start_front())
      pool_.enqueue([self = shared_from_this(), next = std::move(next)] { self->run(next); });
  }
  watching_ = false;
}

}  // namespace floe_torch
