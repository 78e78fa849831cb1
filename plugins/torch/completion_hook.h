// The function that a program wants called at the end of each work of a group.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "completion_pool.h"

namespace floe_torch {

// Called on a thread of the pool, for one work after another, in the order in which they ended.
class CompletionHook : public std::enable_shared_from_this<CompletionHook> {
 public:
  using Info = std::shared_ptr<c10d::WorkInfo>;
  using Function = std::function<void(Info)>;

  // The function is moved and never copied: it may hold an object of Python's.
  CompletionHook(CompletionPool& pool, Function&& function)
      : pool_(pool), function_(std::make_shared<Function>(std::move(function))) {}
  CompletionHook(const CompletionHook&) = delete;
  CompletionHook& operator=(const CompletionHook&) = delete;

  // A work has started: ended() will be called for it, once. Neither blocks.
  void started();
  void ended(Info info);
  // Until the function has returned for all works that have started; false if that takes longer.
  bool drain(std::chrono::milliseconds longest);
  // Lets go of the function, which is not called any more: while Python can still take back what is in it.
  void forget();

 private:
  void run();

  CompletionPool& pool_;
  std::mutex mutex_;
  std::shared_ptr<Function> function_;
  std::condition_variable idle_;
  std::deque<Info> ended_;
  size_t pending_ = 0;    // works that have started and for which the function has not returned
  bool running_ = false;  // a task of the pool is in run()
};

}  // namespace floe_torch
