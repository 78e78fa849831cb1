// Backend's blocking operations: without a work, which nobody would wait for.
#include <ATen/record_function.h>

#include <optional>

#include "backend.h"
#include "batch.h"
#include "errors.h"
#include "exit_gate.h"

namespace floe_torch {
namespace {

using Clock = std::chrono::steady_clock;

// The profiler's event of an operation, as c10d::Work makes one.
class Event {
 public:
  Event(const char* title, const std::vector<at::Tensor>& inputs) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks) return;
    function_.emplace(std::move(*callbacks));
    function_->_setAsync();
    const std::vector<c10::IValue> values(inputs.begin(), inputs.end());
    function_->before(title, c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
  }

 private:
  std::optional<at::RecordFunction> function_;
};

}  // namespace

bool Backend::has_own(Milliseconds timeout) const {
  return timeout > Milliseconds::zero() && timeout != options_->timeout;
}

bool Backend::blocks(bool asynchronous, Milliseconds timeout) const {
  return !asynchronous && !has_own(timeout) && !Coalescing::under_way(this);
}

void Backend::run(const Blocking& operation) {
  const ExitGate gate;
  Level& at = level(operation.title);
  const Chain::UnderWay under_way(this_chain());
  const auto comm = communicator(at);
  const uint64_t sequence = ++sequence_;
  const FlightLog::Entry entry =
      record({operation.title, operation.inputs, operation.outputs, sequence, options_->timeout, true});
  CompletionHook* const hook = hooked_.load(std::memory_order_acquire) ? hook_.get() : nullptr;
  const Event event(operation.title, operation.inputs);
  if (hook) hook->started();
  const auto started = Clock::now();
  const floe_status_t status = operation.call(comm->handle());
  std::exception_ptr problem;
  if (status != FLOE_OK) {
    problem = make_error(status, operation.title, floe_last_error());
    health_->note(status);
    flight_->add_stack(entry);
  } else if (operation.epilogue) {
    try {
      operation.epilogue({});
    } catch (const std::exception&) {
      problem = std::current_exception();
    }
  }
  const auto ended = Clock::now();
  flight_->ended(entry, sequence, !problem, ended - started);
  if (hook)
    hook->ended(std::make_shared<c10d::WorkInfo>(operation.type, sequence, started, ended, ended - started));
  if (problem) std::rethrow_exception(problem);
}

}  // namespace floe_torch
