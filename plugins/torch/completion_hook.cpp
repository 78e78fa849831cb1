#include "completion_hook.h"

#include <c10/util/Exception.h>

namespace floe_torch {

void CompletionHook::started() {
  const std::lock_guard lock(mutex_);
  ++pending_;
}

void CompletionHook::ended(Info info) {
  {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(info));
    if (running_) return;
    running_ = true;
  }
  pool_.enqueue([self = shared_from_this()] { self->run(); });
}

void CompletionHook::run() {
  const CompletionPool::MayBlock others_code(pool_);
  std::unique_lock lock(mutex_);
  while (!ended_.empty()) {
    const Info info = std::move(ended_.front());
    ended_.pop_front();
    auto function = function_;
    lock.unlock();
    try {
      if (function) (*function)(info);
    } catch (const std::exception& problem) {
      TORCH_WARN("floe: the completion hook of a process group has failed: ", problem.what());
    }
    function = nullptr;
    lock.lock();
    if (--pending_ == 0) idle_.notify_all();
  }
  running_ = false;
}

bool CompletionHook::drain(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, longest, [&] { return pending_ == 0; });
}

void CompletionHook::forget() {
  std::shared_ptr<Function> function;  // freed when the mutex is free again: that takes Python's lock
  const std::lock_guard lock(mutex_);
  function.swap(function_);
}

}  // namespace floe_torch
