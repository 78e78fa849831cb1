#include "completion_pool.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>

namespace floe_torch {

CompletionPool::CompletionPool() {
  const std::lock_guard lock(mutex_);
  add_thread();
}

void CompletionPool::add_thread() {
  // Signals are for the threads of the program.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // Detached: one that is inside a callback must not keep the process from ending.
  try {
    std::thread([this] { run(); }).detach();
    ++threads_;
  } catch (const std::system_error&) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void CompletionPool::enqueue(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  queue_.push_back(std::move(task));
  work_.notify_one();
}

void CompletionPool::run() {
  ::pthread_setname_np(::pthread_self(), "floe-complete");
  constexpr size_t kSpare = 2;  // threads to keep
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) break;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;  // what it held may be the last reference: not under the lock
    lock.lock();
    --running_;
    if (running_ == 0 && queue_.empty()) quiet_.notify_all();
    if (queue_.empty() && threads_ - blocked_ > kSpare) break;
  }
  --threads_;
}

bool CompletionPool::drain(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  return quiet_.wait_for(lock, longest, [&] { return running_ == 0 && queue_.empty(); });
}

void CompletionPool::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  work_.notify_all();
}

CompletionPool::MayBlock::MayBlock(CompletionPool& pool) : pool_(pool) {
  try {
    const std::lock_guard lock(pool_.mutex_);
    ++pool_.blocked_;
    if (pool_.threads_ == pool_.blocked_ && !pool_.stopping_) pool_.add_thread();
  } catch (const std::system_error& e) {
    TORCH_WARN("floe: no thread for completions can be started (", e.what(),
               "): a future's callback that blocks on another future may not end");
  }
}

CompletionPool::MayBlock::~MayBlock() {
  const std::lock_guard lock(pool_.mutex_);
  --pool_.blocked_;
}

}  // namespace floe_torch
