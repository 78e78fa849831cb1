// A communicator's handle, which operations on other threads share while they use it.
#pragma once

#include <floe/floe.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace floe_torch {

// What Backend::getError() reports. Outlives the communicator.
struct Health {
  std::atomic<c10d::ErrorType> error{c10d::ErrorType::SUCCESS};
  void note(floe_status_t status);
};

class Communicator {
 public:
  // Asked while ranks wait for each other: true ends that.
  using Cancelled = std::function<bool()>;

  // Collective: blocks until all ranks are connected. Throws.
  Communicator(floe_context_t* context, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
               const std::string& name, std::chrono::milliseconds timeout, std::shared_ptr<Health> health,
               Cancelled cancelled = nullptr);
  ~Communicator() { floe_comm_destroy(handle_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  floe_comm_t* handle() const { return handle_; }
  const std::shared_ptr<Health>& health() const { return health_; }

 private:
  floe_comm_t* handle_ = nullptr;
  const std::shared_ptr<Health> health_;  // the group's
};

// Sees through a communicator that its group is whole while the same ranks create another one: who has died
// or left is missing in the store, and that alone would be noticed when the time is up. A ring of empty
// messages: what this rank receives is sent by its neighbour once that has created the other one.
class WhileCreating {
 public:
  // `tag` is used by this object alone, once in the communicator's life.
  WhileCreating(std::shared_ptr<Communicator> group, int rank, int size, uint64_t tag);
  ~WhileCreating() { floe_request_free(message_); }
  WhileCreating(const WhileCreating&) = delete;
  WhileCreating& operator=(const WhileCreating&) = delete;

  // The group has failed, was aborted or shut down.
  bool failed();
  // Throws why it has, if it has.
  void check_group();
  // The other one exists on this rank.
  void done();

 private:
  const std::shared_ptr<Communicator> group_;
  const int rank_, size_;
  const uint64_t tag_;
  floe_request_t* message_ = nullptr;  // null in a group of one
  floe_status_t status_ = FLOE_IN_PROGRESS;
  std::string error_;
};

}  // namespace floe_torch
