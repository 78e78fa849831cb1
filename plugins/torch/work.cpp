#include "work.h"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "errors.h"
#include "exit_gate.h"

namespace floe_torch {
namespace {

using std::chrono::milliseconds;

c10::TypePtr future_type(const TensorLists& outputs) {
  const auto list = c10::ListType::create(c10::TensorType::get());
  return outputs.size() > 1 ? c10::ListType::create(list) : list;
}

c10::IValue future_value(const TensorLists& outputs) {
  if (outputs.size() > 1) return c10::IValue(outputs);
  return c10::IValue(outputs.empty() ? std::vector<at::Tensor>() : outputs.front());
}

// Making an event takes a copy of the inputs and an allocation, even if nobody is there to see it.
bool profiled() { return at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value(); }

}  // namespace

void Backlog::drain(milliseconds longest) {
  std::unique_lock lock(mutex_);
  empty_.wait_for(lock, longest, [&] { return works_ == 0; });
}

Backlog::Entry::Entry(std::shared_ptr<Backlog> backlog) : backlog_(std::move(backlog)) {
  const std::lock_guard lock(backlog_->mutex_);
  ++backlog_->works_;
}

Backlog::Entry::~Entry() {
  const std::lock_guard lock(backlog_->mutex_);
  if (--backlog_->works_ == 0) backlog_->empty_.notify_all();
}

Work::Work(int rank, uint64_t sequence, Operation operation, std::shared_ptr<Communicator> comm,
           CompletionPool& pool, std::shared_ptr<CompletionQueue> queue, std::shared_ptr<Backlog> backlog)
    : c10d::Work(rank, operation.type, profiled() ? operation.title : nullptr,
                 profiled() ? std::optional(operation.inputs) : std::nullopt),
      sequence_(sequence),
      operation_(std::move(operation)),
      comm_(comm),
      health_(comm->health()),
      pool_(pool),
      queue_(std::move(queue)),
      backlog_(std::move(backlog)),
      level_(this_level()) {
  if (queue_ && this_chain()) under_way_in_chain_ = std::make_shared<Chain::UnderWay>(this_chain());
}

Work::~Work() {
  for (floe_request_t* request : requests_) floe_request_free(request);
}

void Work::tell(std::shared_ptr<FlightLog> flight, FlightLog::Entry entry,
                std::shared_ptr<CompletionHook> hook) {
  flight_ = std::move(flight);
  flight_entry_ = entry;
  hook_ = std::move(hook);
}

// ---- Starting -------------------------------------------------------------------------------------------

void Work::start() {
  const auto comm = comm_.lock();
  // From here on it ends in end().
  started_ = Clock::now();
  if (hook_) hook_->started();
  thread_state_.emplace();
  if (backlog_) in_backlog_.emplace(backlog_);
  self_ = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
  floe_status_t status = FLOE_OK;
  std::string message;
  for (const Operation::Call& call : operation_.calls) {
    floe_request_t* request = nullptr;
    status = call(comm->handle(), &request);
    if (status != FLOE_OK) {
      message = floe_last_error();
      break;
    }
    requests_.push_back(request);
    under_way_.fetch_add(1, std::memory_order_relaxed);
    floe_request_on_complete(request, &Work::on_complete, this);
  }
  // A failed start ends the work too, once the requests before have: they still use the tensors.
  const auto keep = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
  request_ended(status, message.c_str());
  if (status != FLOE_OK) std::rethrow_exception(make_error(status, operation_.title, message));
}

// ---- Ending ---------------------------------------------------------------------------------------------

void Work::on_complete(void* user, floe_status_t status, const char* message) {
  static_cast<Work*>(user)->request_ended(status, message);
}

// On floe's thread, under its lock.
void Work::request_ended(floe_status_t status, const char* message) {
  if (status != FLOE_OK) {
    const std::lock_guard lock(mutex_);
    if (status_ == FLOE_OK) {
      status_ = status;
      message_ = message;
    }
  }
  // Acquire and release: the last one sees what the others have written.
  if (under_way_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard lock(mutex_);
  reported_ = true;
  if (waiters_ > 0) {
    cv_.notify_all();
    return;  // a waiter ends it, and may free this object as soon as the mutex is free
  }
  claimed_ = true;
  pool_.enqueue([self = std::move(self_)] { self->end_on_pool(); });
}

// By the one thread that has claimed it.
void Work::end() {
  std::exception_ptr problem;
  if (status_ != FLOE_OK) {
    health_->note(status_);
    problem = make_error(status_, operation_.title, message_);
  } else if (operation_.epilogue) {
    try {
      operation_.epilogue(requests_);
    } catch (const std::exception&) {
      problem = std::current_exception();
    }
  }
  // Before tensors are freed, which may take Python's lock: whoever drains the backlog may have that.
  in_backlog_.reset();
  // What only these hold is not needed any more.
  operation_.epilogue = nullptr;
  operation_.calls.clear();
  operation_.inputs.clear();
  ended_ = Clock::now();
  tell_of_end(!problem);
  finish(problem);
  const std::lock_guard lock(mutex_);
  if (!future_) under_way_in_chain_ = nullptr;
}

void Work::tell_of_end(bool good) {
  if (flight_) flight_->ended(flight_entry_, sequence_, good, ended_ - started_);
  if (hook_)
    hook_->ended(std::make_shared<c10d::WorkInfo>(opType_, sequence_, started_, ended_, ended_ - started_));
}

void Work::end_on_pool() {
  {
    const at::ThreadLocalStateGuard guard(*thread_state_);
    end();
  }
  offer_future(Thread::kOfPool);
}

// The work has ended: its future, if there is one, is completed as soon as it is its turn.
void Work::offer_future(Thread thread) {
  {
    const std::lock_guard lock(mutex_);
    if (!completed_ || !future_ || offered_) return;
    offered_ = true;
  }
  auto complete = [self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this)] {
    self->complete_future();
  };
  CompletionPool::Task task;
  if (!queue_) {
    task = [complete, &pool = pool_, above = level_ + 1] {
      const CompletionPool::MayBlock callbacks(pool);
      const AtLevel level(above, std::make_shared<Chain>());
      complete();
    };
  } else if (queue_->ready(place_, std::move(complete))) {
    task = [queue = queue_, place = place_] { queue->run(place); };
  } else {
    return;
  }
  if (thread == Thread::kOfPool)
    task();
  else
    pool_.enqueue(std::move(task));
}

// Runs the future's callbacks.
void Work::complete_future() {
  {
    const at::ThreadLocalStateGuard guard(*thread_state_);
    if (exception_)
      future_->setError(exception_);
    else
      future_->markCompleted(future_value(operation_.outputs));
  }
  const std::lock_guard lock(mutex_);
  place_ = nullptr;
  under_way_in_chain_ = nullptr;
}

// ---- Waiting --------------------------------------------------------------------------------------------

// Progresses floe on this thread until all requests have completed; false when the time is up.
bool Work::drive(milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (floe_request_t* request : requests_) {
    uint64_t left = FLOE_NO_TIMEOUT;
    if (timeout != kNoTimeout) {
      const auto rest = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      left = static_cast<uint64_t>(std::max(rest, milliseconds::zero()).count());
    }
    const floe_status_t status = floe_wait(request, left);
    if (status == FLOE_IN_PROGRESS) return false;
    if (status == FLOE_ERR_FORKED) check(status, operation_.title);
  }
  return true;
}

bool Work::wait(milliseconds timeout) {
  const ExitGate gate;
  std::unique_lock lock(mutex_);
  if (!completed_) {
    ++waiters_;
    lock.unlock();
    const bool driven = drive(timeout);
    lock.lock();
    // The last report may still be on its way, for an instant.
    if (driven) cv_.wait(lock, [&] { return reported_; });
    --waiters_;
    if (reported_ && !claimed_) {
      claimed_ = true;
      const auto self = std::move(self_);
      lock.unlock();
      end();
      offer_future(Thread::kOfCaller);
      lock.lock();
    } else if (driven) {
      cv_.wait(lock, [&] { return completed_; });
    }
  }
  waited_ = waited_ || completed_;
  if (exception_) std::rethrow_exception(exception_);
  if (!completed_)
    C10_THROW_ERROR(DistBackendError, std::string(operation_.title) +
                                          ": Timed out : not complete after the " +
                                          std::to_string(timeout.count()) + " ms of this wait; it goes on");
  return true;
}

// No ExitGate: Python calls it with its lock held, which nobody else would get any more.
bool Work::isCompleted() {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return true;
  }
  for (floe_request_t* request : requests_) floe_test(request);
  const std::lock_guard lock(mutex_);
  return completed_;
}

void Work::abort() {
  if (const auto comm = comm_.lock()) check(floe_comm_abort(comm->handle()), operation_.title);
}

// ---- Results --------------------------------------------------------------------------------------------

std::vector<at::Tensor> Work::result() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(completed_, operation_.title, ": wait() before result()");
  std::vector<at::Tensor> all;
  for (const auto& list : operation_.outputs) all.insert(all.end(), list.begin(), list.end());
  return all;
}

float Work::getDuration() const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(completed_, operation_.title, ": wait() before asking how long it took");
  return std::chrono::duration<float, std::milli>(ended_ - started_).count();
}

int Work::sourceRank() const {
  TORCH_CHECK(opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE, operation_.title,
              ": only a receive has a source");
  floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
  check(floe_request_info(requests_.front(), &info), operation_.title);
  return static_cast<int>(info.source);
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(future_type(operation_.outputs));
    if (completed_ && (waited_ || !queue_ || queue_->empty())) {
      // Nobody else has it yet, so it has no callbacks.
      offered_ = true;
      if (exception_)
        future_->setError(exception_);
      else
        future_->markCompleted(future_value(operation_.outputs));
      return future_;
    }
    if (queue_) {
      place_ = queue_->join();
      // It may have ended, and have been taken for done.
      if (this_chain()) under_way_in_chain_ = std::make_shared<Chain::UnderWay>(this_chain());
    }
  }
  offer_future(Thread::kOfCaller);
  return future_;
}

}  // namespace floe_torch
