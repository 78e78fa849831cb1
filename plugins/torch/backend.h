// The c10d backend "floe": one communicator per process group.
#pragma once

#include <floe/floe.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "communicator.h"
#include "completion_hook.h"
#include "completion_queue.h"
#include "flight.h"
#include "levels.h"
#include "process.h"
#include "work.h"

namespace floe_torch {

class Backend final : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Milliseconds = std::chrono::milliseconds;

  // Collective: blocks until all ranks of the group are connected. Throws.
  static c10::intrusive_ptr<Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            const std::string& name, Milliseconds timeout);
  Backend(Process& process, c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::string name,
          Milliseconds timeout);
  ~Backend() override;

  // Its ranks as those of the whole job, for those who look at many groups. Before its first operation.
  void set_members(std::vector<uint64_t> ranks) { members_ = std::move(ranks); }

  const std::string getBackendName() const override { return "floe"; }
  // A copy: PyTorch makes those of a split group from it, in place.
  c10::intrusive_ptr<Options> getBackendOptions() override { return c10::make_intrusive<Options>(*options_); }
  void setTimeout(Milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}  // counts from 0 on every rank
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override { return health_->error; }

  // Memory that all ranks of a host can map: where all of the group are on one.
  bool supportsTensorAlloc(c10::DeviceIndex) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;

  // Lets the collectives under way end, within kLongestDrain: other ranks may not have come to them yet. Then
  // leaves the group; what is still under way ends with an error, at once.
  void shutdown() override;
  // Ends everything under way, on all ranks.
  void abort() override;

  // Called on a thread of floe's, which may not issue collectives of this group: see CompletionHook.
  void registerOnCompletionHook(CompletionHook::Function&& hook) override;
  // Until all works have ended, and the hook has returned for them. Throws when the group's timeout is over.
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override {}  // works always know how long they took

  // Operations between the two are one work at the end. They start at once all the same.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // collectives.cpp
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;

  // What all_reduce is without a work: blocks, and throws.
  void all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op);

  // messages.cpp
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // sparse.cpp
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;

  // monitored_barrier.cpp
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  // regroup.cpp: other groups, of ranks of this one or with more. What they are made with is their own store.
  bool supportsSplitting() const override { return true; }
  bool supportsShrinking() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& opts) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<Options>& opts, const int& rank,
                                          const int& size) override;
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
                                           const c10::intrusive_ptr<Options>& opts_override) override;

  // blocks.cpp
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;

 private:
  // What collectives of one level share: see levels.h. Messages are all of level 0: they are matched by
  // their tags, whatever the order.
  struct Level {
    std::mutex creating;
    WhileCreating::Ring ring;            // under `creating`
    std::shared_ptr<Communicator> comm;  // under mutex_; null before its first use and after shutdown()
    std::shared_ptr<CompletionQueue> queue;
  };

  // Those of this thread's level. The communicator is created at the first use of the level, collectively.
  Level& level(const char* what);
  std::shared_ptr<Communicator> communicator(Level& level);
  std::shared_ptr<Communicator> create(Level& level);
  std::vector<std::shared_ptr<Communicator>> communicators();
  // The same of `ranks` of this group.
  std::vector<uint64_t> members(const std::vector<int>& ranks) const;
  FlightLog::Entry record(const FlightLog::Operation& operation);
  // Starts the operation. Or runs it if its caller waits anyway: the answer is then null, which is no error.
  WorkPtr launch(Operation operation);

  // run.cpp
  // One call to floe, and what its caller has as long as that takes.
  struct Blocking {
    c10d::OpType type;
    const char* title;
    const Tensors& inputs;
    const Tensors& outputs;
    c10::function_ref<floe_status_t(floe_comm_t*)> call;
    const Operation::Epilogue& epilogue;
  };
  bool has_own(Milliseconds timeout) const;
  // Whether an operation of one call can be run.
  bool blocks(bool asynchronous, Milliseconds timeout) const;
  // Runs the collective on this thread, to its end. Throws its error.
  void run(const Blocking& operation);
  uint32_t root_rank(const char* what, int64_t root) const;
  // A connection of its own: a store is busy as long as another thread waits in it.
  c10::intrusive_ptr<c10d::Store> own_store();

  Process& process_;
  const c10::intrusive_ptr<Options> options_;
  const std::shared_ptr<Health> health_ = std::make_shared<Health>();
  const std::shared_ptr<Backlog> collectives_ = std::make_shared<Backlog>();
  const std::string name_;
  const std::shared_ptr<FlightLog> flight_ = std::make_shared<FlightLog>();
  std::vector<uint64_t> members_;  // empty: as in the group
  std::once_flag members_told_;
  std::mutex mutex_;
  std::array<Level, kLevels> levels_;
  c10::intrusive_ptr<c10d::Store> store_;  // under mutex_; null after shutdown()
  bool aborted_ = false;                   // under mutex_: no level can be added any more
  std::atomic<uint64_t> monitored_{0};     // monitored barriers so far
  std::atomic<uint64_t> shrunk_{0};        // groups made by shrink() so far
  std::atomic<bool> hooked_{false};        // there is a hook_: acquire and release
  std::shared_ptr<CompletionHook> hook_;   // set once
  std::atomic<uint64_t> sequence_{0};      // collectives so far
};

}  // namespace floe_torch
