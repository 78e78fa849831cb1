// An operation under way, as PyTorch sees it.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <ATen/core/ivalue.h>
#include <floe/floe.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "communicator.h"
#include "completion_hook.h"
#include "completion_pool.h"
#include "completion_queue.h"
#include "flight.h"
#include "levels.h"
#include "tensors.h"

namespace floe_torch {

// One c10d operation: what to call, and what to keep and do around it.
struct Operation {
  // Starts one floe operation; with a null request it blocks until that is done.
  using Call = std::function<floe_status_t(floe_comm_t* comm, floe_request_t** request)>;
  // Looks at the completed requests and writes the outputs that floe did not. May throw.
  using Epilogue = std::function<void(const std::vector<floe_request_t*>& requests)>;

  c10d::OpType type;
  const char* title;  // "floe:all_reduce": a literal
  std::vector<at::Tensor> inputs;
  TensorLists outputs;  // one list: the future's value is a List[Tensor]; more: a List[List[Tensor]]
  std::vector<Call> calls;
  Epilogue epilogue = nullptr;
  bool asynchronous = true;
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

// How many works of a group are under way.
class Backlog {
 public:
  // Until there are none, but no longer than this.
  void drain(std::chrono::milliseconds longest);

  // One of them, as long as this object.
  class Entry {
   public:
    explicit Entry(std::shared_ptr<Backlog> backlog);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    const std::shared_ptr<Backlog> backlog_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  size_t works_ = 0;
};

// Ends exactly once, on the first of: a thread in wait(), or a thread of the pool when nobody waits.
//
// floe reports the end of each request on its own thread, which must not block; the last report decides
// under the mutex who ends the work. Until then `self_` keeps it, and so the tensors, alive even if the
// caller drops it. Whoever ends it takes `self_`, so that floe's thread never frees a tensor: that may take
// Python's lock.
class Work final : public c10d::Work {
 public:
  // Its future is completed when it is its turn in `queue`, or at once without one. Counted in `backlog`, if
  // any, from start() to the end.
  Work(int rank, uint64_t sequence, Operation operation, std::shared_ptr<Communicator> comm,
       CompletionPool& pool, std::shared_ptr<CompletionQueue> queue, std::shared_ptr<Backlog> backlog);
  ~Work() override;

  // Who is told of the operation: before it starts. Either may be null.
  void tell(std::shared_ptr<FlightLog> flight, FlightLog::Entry entry, std::shared_ptr<CompletionHook> hook);
  // Starts the operation and returns. Throws what is wrong with the arguments or the communicator.
  void start();

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  std::vector<at::Tensor> result() override;
  int sourceRank() const override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }
  float getDuration() const override;

 private:
  static void on_complete(void* user, floe_status_t status, const char* message);
  void request_ended(floe_status_t status, const char* message);
  bool drive(std::chrono::milliseconds timeout);
  void end();
  void tell_of_end(bool good);
  void end_on_pool();
  void complete_future();
  enum class Thread { kOfPool, kOfCaller };
  void offer_future(Thread thread);

  using Clock = std::chrono::steady_clock;

  const uint64_t sequence_;
  Operation operation_;
  std::weak_ptr<Communicator> comm_;  // a work must not keep a communicator from being left
  const std::shared_ptr<Health> health_;
  CompletionPool& pool_;
  const std::shared_ptr<CompletionQueue> queue_;
  const std::shared_ptr<Backlog> backlog_;
  std::shared_ptr<FlightLog> flight_;
  FlightLog::Entry flight_entry_;
  std::shared_ptr<CompletionHook> hook_;
  Clock::time_point started_, ended_;                 // the latter from the end on
  std::optional<Backlog::Entry> in_backlog_;          // from start() to the end
  const int level_;                                   // of the thread that issued it
  std::optional<at::ThreadLocalState> thread_state_;  // the caller's, for callbacks

  std::vector<floe_request_t*> requests_;  // constant once started
  std::atomic<size_t> under_way_{1};       // requests not yet reported, and start() itself

  // Under mutex_, which is never held around a call to floe or to code of others:
  floe_status_t status_ = FLOE_OK;  // the first error
  std::string message_;
  bool reported_ = false;  // all requests have ended
  bool claimed_ = false;   // a thread is in end()
  size_t waiters_ = 0;
  c10::intrusive_ptr<Work> self_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::shared_ptr<CompletionQueue::Place> place_;  // the future's in queue_
  bool waited_ = false;                            // the caller knows the end from wait()
  bool offered_ = false;                           // the future is completed, or somebody sees to it
  // Until the end and the future's completion. Null if no callback has issued the work.
  std::shared_ptr<Chain::UnderWay> under_way_in_chain_;
};

}  // namespace floe_torch
