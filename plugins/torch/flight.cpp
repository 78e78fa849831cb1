#include "flight.h"

// Of PyTorch's copy of fmt, which is not linked with.
#define FMT_HEADER_ONLY 1
#include <atomic>
#include <torch/csrc/distributed/c10d/FlightRecorderDetail.hpp>
#include <tuple>

#include "exit_gate.h"

namespace floe_torch {
namespace {

// The times are known when they are written: no event has to be asked for them.
struct NoEvent {
  bool query() { return false; }
};
using Recorder = c10d::FlightRecorder<NoEvent>;

// Apart from Gloo's, which count from 0.
size_t next_id() {
  static std::atomic<size_t> next{1000};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// The recorder's mutex is held.
Recorder::Entry* find(Recorder& recorder, const FlightLog::Entry& entry) {
  Recorder::Entry& found = recorder.entries_.at(recorder.getIdxFromId(*entry.id, *entry.epoch));
  // It may have been overwritten by a later one.
  return found.id_ == *entry.id && found.reset_epoch_ == *entry.epoch ? &found : nullptr;
}

using Stack = std::shared_ptr<torch::CapturedTraceback>;

// Takes Python's lock.
Stack stack() {
  const ExitGate python;
  return torch::CapturedTraceback::gather(true, true, Recorder::get()->capture_cpp_stack_);
}

const Stack& no_stack() {
  static const Stack& none = *new Stack(std::make_shared<torch::CapturedTraceback>());
  return none;
}

template <typename Dims, typename Sizes>
void add(const std::vector<at::Tensor>& tensors, Dims& dims, std::vector<c10::ScalarType>& types,
         Sizes& all) {
  for (const at::Tensor& tensor : tensors) {
    const auto sizes = tensor.sizes();
    types.push_back(tensor.scalar_type());
    dims.push_back(tensor.dim());
    all.append(sizes.begin(), sizes.end());
  }
}

}  // namespace

FlightLog::FlightLog() : id_(next_id()), status_(std::make_shared<c10d::ProcessGroupStatus>()) {}

FlightLog::Entry FlightLog::started(const Operation& operation) {
  Recorder& recorder = *Recorder::get();
  if (!recorder.enabled_) return {};
  thread_local const std::string thread = c10::getThreadName();
  const bool message = operation.sequence == 0;
  Recorder::Entry entry{};
  entry.traceback_ = operation.blocking ? no_stack() : stack();
  entry.pg_id_ = id_;
  entry.pg_name_ = {operation.group, operation.description};
  entry.collective_seq_id_ = operation.sequence;
  entry.profiling_name_ = operation.title;
  entry.timeout_ms_ = operation.timeout.count();
  entry.isP2P_ = message;
  entry.time_created_ = c10::getTime();
  entry.time_discovered_started_ = entry.time_created_;
  entry.thread_id_ = std::this_thread::get_id();
  entry.thread_name_ = thread;
  add(operation.inputs, entry.input_dims_, entry.input_dtypes_, entry.sizes_);
  add(operation.outputs, entry.output_dims_, entry.output_dtypes_, entry.sizes_);

  Recorder::Entry overwritten;  // freed when the mutex is free again
  const std::lock_guard lock(recorder.mutex_);
  entry.op_id_ = ++operations_;
  entry.p2p_seq_id_ = message ? ++messages_ : messages_;
  recorder.all_pg_status_.try_emplace(id_, status_);
  const auto sequence = static_cast<int64_t>(operation.sequence);
  if (!message)
    status_->lastEnqueuedSeq = status_->lastStartedSeq = std::max(status_->lastStartedSeq, sequence);
  const FlightLog::Entry where{recorder.id_++, recorder.reset_epoch_};
  entry.id_ = *where.id;
  entry.reset_epoch_ = *where.epoch;
  if (recorder.entries_.size() < recorder.max_entries_)
    recorder.entries_.push_back(std::move(entry));
  else
    overwritten = std::exchange(recorder.entries_[recorder.next_], std::move(entry));
  recorder.next_ = (recorder.next_ + 1) % recorder.max_entries_;
  return where;
}

void FlightLog::add_stack(const Entry& entry) {
  if (!entry.id) return;
  auto here = stack();
  Recorder& recorder = *Recorder::get();
  const std::lock_guard lock(recorder.mutex_);
  if (auto* written = find(recorder, entry)) written->traceback_.swap(here);
}

void FlightLog::ended(const Entry& entry, uint64_t sequence, bool good,
                      std::chrono::duration<float, std::milli> took) {
  if (!entry.id) return;
  Recorder& recorder = *Recorder::get();
  const std::lock_guard lock(recorder.mutex_);
  if (auto* written = find(recorder, entry)) {
    written->retired_ = true;
    if (good) {
      written->time_discovered_completed_ = c10::getTime();
      written->duration_ = took.count();
    }
  }
  if (good && sequence != 0)
    status_->lastCompletedSeq = std::max(status_->lastCompletedSeq, static_cast<int64_t>(sequence));
}

void FlightLog::members(const std::string& group, const std::string& description,
                        std::vector<uint64_t> ranks) {
  Recorder::get()->record_pg_ranks({group, description}, std::move(ranks));
}

c10::IValue flight_trace(bool collectives, bool stack_traces, bool only_active) {
  Recorder& recorder = *Recorder::get();
  auto trace = c10d::new_dict();
  {
    const std::lock_guard lock(recorder.mutex_);
    trace.insert(c10d::pg_config_key, recorder.getPgConfig());
    trace.insert(c10d::pg_status_key, recorder.getPgStatus());
  }
  if (collectives) trace.insert(c10d::entries_key, recorder.getCollectiveTrace(stack_traces, only_active));
  return trace;
}

std::string flight_trace_json(bool collectives, bool only_active) {
  return Recorder::get()->dump_json(std::nullopt, collectives, only_active);
}

}  // namespace floe_torch
