// The threads on which works end when nobody waits for them: never floe's own, which must not block.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace floe_torch {

// A future's callbacks may block on another work's future (PowerSGD's do), which needs a thread to be
// completed on. So there is always one that is not inside a callback: as many threads as callbacks that
// block at the same time, and one more.
class CompletionPool {
 public:
  using Task = std::function<void()>;

  CompletionPool();
  CompletionPool(const CompletionPool&) = delete;
  CompletionPool& operator=(const CompletionPool&) = delete;

  // Never blocks. From any thread.
  void enqueue(Task task);
  // Until nothing is queued or running; false if that takes longer. Not from a task.
  bool drain(std::chrono::milliseconds longest);
  // Ends the threads that are idle. Tasks that still come are not run.
  void stop();

  // Around code of others that may block, inside a task.
  class MayBlock {
   public:
    explicit MayBlock(CompletionPool& pool);
    ~MayBlock();
    MayBlock(const MayBlock&) = delete;
    MayBlock& operator=(const MayBlock&) = delete;

   private:
    CompletionPool& pool_;
  };

 private:
  void add_thread();  // lock held
  void run();

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable quiet_;
  std::deque<Task> queue_;
  size_t threads_ = 0;
  size_t running_ = 0;  // threads inside a task
  size_t blocked_ = 0;  // of those, inside code that may block
  bool stopping_ = false;
};

}  // namespace floe_torch
