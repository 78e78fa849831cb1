// Several works as one.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace floe_torch {

// What endCoalescing() returns: ends when all have, with the error of the first that has one.
class Batch final : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  Batch(int rank, std::vector<WorkPtr> works)
      : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // At most this long in all; kNoTimeout: until the deadlines of the works.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  void abort() override;
  std::vector<at::Tensor> result() override;
  // Its value: all results, in the order of the works.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<WorkPtr> works_;
};

// The works that this thread starts between Backend::startCoalescing() and endCoalescing().
class Coalescing {
 public:
  // Of the backend with this address. Forgets works that were never asked for: an exception ended their
  // region.
  static void start(const void* backend);
  // Between the two on this thread.
  static bool under_way(const void* backend);
  static void note(const void* backend, const Batch::WorkPtr& work);
  // Throws if there was no start.
  static std::vector<Batch::WorkPtr> end(const void* backend);
};

}  // namespace floe_torch
