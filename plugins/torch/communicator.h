// A communicator's handle, which operations on other threads share while they use it.
#pragma once

#include <floe/floe.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <shared_mutex>
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
  // What starts has the deadline that the communicator has at that moment: an operation's own is set with
  // this held alone, whoever starts something else shares it. Blocking collectives would hold it while they
  // wait, and need not: only messages may start at the same time as a collective.
  std::shared_mutex& starting() { return starting_; }

 private:
  floe_comm_t* handle_ = nullptr;
  std::shared_mutex starting_;
  const std::shared_ptr<Health> health_;  // the group's
};

// Sees through a communicator that its group is whole while the same ranks create another one: who has died
// or left is missing in the store, and that alone would be noticed when the time is up. A ring of empty
// messages: what this rank receives is sent by its neighbour once that has created the other one, or has
// first failed to.
class WhileCreating {
 public:
  // One for all attempts to create it: nothing takes back a receive, and each rank sends but once.
  struct Ring {
    std::unique_ptr<floe_request_t, decltype(&floe_request_free)> message{nullptr, &floe_request_free};
    bool told = false;
  };

  // `tag` is this ring's alone. In a group of one the ring stays empty.
  WhileCreating(std::shared_ptr<Communicator> group, int rank, int size, uint64_t tag, Ring& ring);
  WhileCreating(const WhileCreating&) = delete;
  WhileCreating& operator=(const WhileCreating&) = delete;

  // The group has failed, was aborted or shut down.
  bool failed();
  // Throws why it has, if it has.
  void check_group();
  // The other one exists on this rank.
  void done();
  // It could not be created, and the group is whole: the neighbour's receive must not end that when its time
  // is up, with nobody waiting for it.
  void give_up() { tell(); }

 private:
  floe_status_t tell();

  const std::shared_ptr<Communicator> group_;
  const int rank_, size_;
  const uint64_t tag_;
  Ring& ring_;
  floe_status_t status_ = FLOE_IN_PROGRESS;
  std::string error_;
};

}  // namespace floe_torch
