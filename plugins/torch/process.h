// What all process groups of this process share: floe's context with its worker, and the threads that
// complete works.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <floe/floe.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "completion_pool.h"
#include "memory.h"

namespace floe_torch {

class Backend;

// Created at first use and never freed: its threads may outlive static objects. It ends in shutdown(),
// which torch_floe calls from Python's atexit, while callbacks can still take the interpreter's lock, and
// which C's atexit calls for programs without Python.
class Process {
 public:
  // This process's. Throws if there can't be one. A forked child gets its own.
  static Process& get();
  // Leaves all communicators, lets callbacks end, stops floe's worker. Nothing can be created afterwards.
  static void shutdown();
  // The same, on the thread on which Python exits: no other thread returns into Python from then on.
  static void shutdown_with_python();

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Not destroyed while somebody holds it, to create something. Throws once the process exits.
  std::shared_ptr<floe_context_t> context();
  CompletionPool& pool() { return pool_; }
  MemoryAllocator& memory() { return *memory_; }

  void add(const c10::intrusive_ptr<Backend>& backend);

 private:
  Process();
  void end();

  const int pid_;
  std::shared_ptr<floe_context_t> context_;  // under mutex_; null after end()
  CompletionPool pool_;
  std::optional<MemoryAllocator> memory_;
  std::mutex mutex_;
  std::vector<c10::weak_intrusive_ptr<Backend>> backends_;
};

}  // namespace floe_torch
