#include "process.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "backend.h"
#include "errors.h"
#include "exit_gate.h"

namespace floe_torch {
namespace {

// How long callbacks may take at exit: one that blocks for ever must not keep the process.
constexpr std::chrono::milliseconds kLongestDrain(5000);

struct Current {
  std::mutex mutex;
  Process* process = nullptr;
  bool ended = false;
};

// Never destroyed: asked for until the very end of the process.
Current& current() {
  static Current* const instance = new Current;
  return *instance;
}

}  // namespace

Process::Process() : pid_(::getpid()) {
  floe_context_config_t config = FLOE_CONTEXT_CONFIG_INIT;
  config.workers = 1;  // DDP waits on futures, which nobody drives
  floe_context_t* context = nullptr;
  check(floe_context_create(&config, &context), "creating floe's context");
  context_ = {context, [](floe_context_t* /*destroyed in end()*/) {}};
  memory_.emplace(context);
}

std::shared_ptr<floe_context_t> Process::context() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(context_, "floe: the process is exiting: no process group can be created any more");
  return context_;
}

Process& Process::get() {
  Current& now = current();
  const std::lock_guard lock(now.mutex);
  TORCH_CHECK(!now.ended, "floe: the process is exiting: no process group can be created any more");
  if (!now.process || now.process->pid_ != ::getpid()) {
    now.process = new Process;
    static const int registered = std::atexit([] { Process::shutdown(); });
    TORCH_CHECK(registered == 0, "floe: atexit failed");
  }
  return *now.process;
}

void Process::shutdown() {
  Process* process = nullptr;
  {
    Current& now = current();
    const std::lock_guard lock(now.mutex);
    if (now.ended || !now.process || now.process->pid_ != ::getpid()) return;
    now.ended = true;
    process = now.process;
  }
  process->end();
}

void Process::shutdown_with_python() {
  ExitGate::close();
  shutdown();
  ExitGate::close_to_callbacks();
}

void Process::add(const c10::intrusive_ptr<Backend>& backend) {
  const std::lock_guard lock(mutex_);
  std::erase_if(backends_, [](const auto& weak) { return weak.expired(); });
  backends_.emplace_back(backend);
}

void Process::end() {
  std::vector<c10::weak_intrusive_ptr<Backend>> backends;
  {
    const std::lock_guard lock(mutex_);
    backends.swap(backends_);
  }
  for (const auto& weak : backends)
    if (const auto backend = weak.lock()) backend->shutdown();
  pool_.drain(kLongestDrain);
  std::shared_ptr<floe_context_t> context;
  {
    const std::lock_guard lock(mutex_);
    context = std::move(context_);
  }
  // The memory would go with it, under tensors that may still be used, or another thread is creating a group.
  // Also fails if one is inside an operation of a communicator. The worker is then left alone.
  if (!memory_->in_use() && context.use_count() == 1) floe_context_destroy(context.get());
  pool_.stop();
}

}  // namespace floe_torch
