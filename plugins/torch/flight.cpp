#include "flight.h"

// Of PyTorch's copy of fmt, which is not linked with.
#define FMT_HEADER_ONLY 1
#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/FlightRecorderDetail.hpp>
#include <utility>

#include "exit_gate.h"

namespace floe_torch {

struct FlightLog::Group {
  const size_t id;
  const std::string name, description;
  const std::vector<uint64_t> ranks;
  // Under the ring's mutex:
  c10d::ProcessGroupStatus status;
  uint64_t messages = 0, operations = 0;
};

namespace {

// The times are known when they are written: no event has to be asked for them.
struct NoEvent {
  bool query() { return false; }
};
// PyTorch's: what knows the settings and the form of a dump.
using Recorder = c10d::FlightRecorder<NoEvent>;

const Recorder& settings() { return *Recorder::get(); }

using Stack = std::shared_ptr<torch::CapturedTraceback>;

// Takes Python's lock.
Stack stack() {
  const ExitGate python;
  return torch::CapturedTraceback::gather(true, true, settings().capture_cpp_stack_);
}

// For the dump, where each entry has one.
const Stack& no_stack() {
  static const Stack& none = *new Stack(std::make_shared<torch::CapturedTraceback>());
  return none;
}

struct Thread {
  std::thread::id id = std::this_thread::get_id();
  std::array<char, 16> name{};  // Linux's longest, and its end

  Thread() { c10::getThreadName().copy(name.data(), name.size() - 1); }
};

struct Record {
  uint64_t number = 0;
  const FlightLog::Group* group = nullptr;
  const char* title = nullptr;
  uint64_t sequence = 0, message = 0, operation = 0;  // of the group's, each kind counted for itself
  bool is_message = false, retired = false, completed = false;
  c10::time_t created = 0;
  std::chrono::milliseconds timeout{0};
  std::chrono::nanoseconds took{0};
  Thread thread;
  Stack stack;  // null: none was taken
  size_t inputs = 0;
  c10::SmallVector<int64_t, 8> tensors;  // of inputs, then outputs: the type, how many sizes, the sizes
};

struct Ring {
  std::mutex mutex;
  std::vector<Record> records;  // number n is at n % max_entries_
  uint64_t next = 0;
  // Never freed, nor are PyTorch's: what a group was is of use after its end.
  std::vector<std::unique_ptr<FlightLog::Group>> groups;

  Ring() { records.reserve(settings().max_entries_); }

  // With the mutex held. Null if it has been overwritten by a later one.
  Record* find(uint64_t number) {
    Record& record = records[number % settings().max_entries_];
    return record.number == number ? &record : nullptr;
  }
};

// Leaked: threads may still record while static destructors run.
Ring& ring() {
  static Ring& only = *new Ring;
  return only;
}

void add(const std::vector<at::Tensor>& tensors, c10::SmallVectorImpl<int64_t>& all) {
  for (const at::Tensor& tensor : tensors) {
    const auto sizes = tensor.sizes();
    all.push_back(static_cast<int64_t>(tensor.scalar_type()));
    all.push_back(tensor.dim());
    all.append(sizes.begin(), sizes.end());
  }
}

// ---- PyTorch's form -------------------------------------------------------------------------------------

Recorder::Entry entry_of(const Record& record) {
  Recorder::Entry entry{};
  entry.id_ = record.number;
  entry.pg_id_ = record.group->id;
  entry.pg_name_ = {record.group->name, record.group->description};
  entry.collective_seq_id_ = record.sequence;
  entry.p2p_seq_id_ = record.message;
  entry.op_id_ = record.operation;
  entry.profiling_name_ = record.title;
  entry.traceback_ = record.stack ? record.stack : no_stack();
  entry.time_created_ = record.created;
  entry.time_discovered_started_ = record.created;
  entry.timeout_ms_ = record.timeout.count();
  entry.isP2P_ = record.is_message;
  entry.retired_ = record.retired;
  if (record.completed) {
    entry.time_discovered_completed_ = record.created + record.took.count();
    entry.duration_ = std::chrono::duration<float, std::milli>(record.took).count();
  }
  entry.thread_id_ = record.thread.id;
  entry.thread_name_ = record.thread.name.data();
  const auto* at = record.tensors.begin();
  for (size_t tensor = 0; at != record.tensors.end(); ++tensor) {
    const bool input = tensor < record.inputs;
    (input ? entry.input_dtypes_ : entry.output_dtypes_).push_back(static_cast<c10::ScalarType>(*at++));
    const int64_t dims = *at++;
    (input ? entry.input_dims_ : entry.output_dims_).push_back(dims);
    entry.sizes_.append(at, at + dims);
    at += dims;
  }
  return entry;
}

void copy_all(Recorder& recorder) {
  Ring& from = ring();
  const std::lock_guard lock(from.mutex);
  for (const auto& group : from.groups) {
    recorder.pg_name_to_ranks_[{group->name, group->description}] = group->ranks;
    if (group->operations > 0)
      recorder.all_pg_status_[group->id] = std::make_shared<c10d::ProcessGroupStatus>(group->status);
  }
  for (uint64_t number = from.next - from.records.size(); number < from.next; ++number)
    recorder.entries_.push_back(entry_of(*from.find(number)));
}

}  // namespace

void FlightLog::describe(const std::string& name, const std::string& description,
                         std::vector<uint64_t> ranks) {
  if (!settings().enabled_) return;
  constexpr size_t kFirst = 1000;  // apart from Gloo's, which count from 0
  Ring& all = ring();
  const std::lock_guard lock(all.mutex);
  const size_t id = kFirst + all.groups.size();
  all.groups.push_back(std::unique_ptr<Group>(new Group{id, name, description, std::move(ranks), {}}));
  group_ = all.groups.back().get();
}

FlightLog::Entry FlightLog::started(const Operation& operation) {
  if (!group_) return {};
  thread_local const Thread thread;
  Stack stack_then;  // of the operation that is overwritten: freed when the mutex is free again
  Stack stack_now = operation.blocking ? nullptr : stack();
  const c10::time_t now = c10::getTime();
  Ring& all = ring();
  const std::lock_guard lock(all.mutex);
  const size_t at = all.next % settings().max_entries_;
  if (at == all.records.size()) all.records.emplace_back();
  Record& record = all.records[at];
  record.number = all.next++;
  record.group = group_;
  record.title = operation.title;
  record.is_message = operation.sequence == 0;
  record.sequence = operation.sequence;
  record.message = group_->messages += record.is_message ? 1 : 0;
  record.operation = ++group_->operations;
  record.retired = record.completed = false;
  record.created = now;
  record.timeout = operation.timeout;
  record.thread = thread;
  stack_then = std::exchange(record.stack, std::move(stack_now));
  record.inputs = operation.inputs.size();
  record.tensors.clear();
  add(operation.inputs, record.tensors);
  add(operation.outputs, record.tensors);
  auto& status = group_->status;
  if (!record.is_message)
    status.lastEnqueuedSeq = status.lastStartedSeq =
        std::max(status.lastStartedSeq, static_cast<int64_t>(operation.sequence));
  return record.number;
}

void FlightLog::add_stack(Entry entry) {
  if (!entry) return;
  auto here = stack();
  Ring& all = ring();
  const std::lock_guard lock(all.mutex);
  if (Record* record = all.find(*entry)) record->stack.swap(here);
}

void FlightLog::ended(Entry entry, uint64_t sequence, bool good, std::chrono::nanoseconds took) {
  if (!entry) return;
  Ring& all = ring();
  const std::lock_guard lock(all.mutex);
  if (Record* record = all.find(*entry)) {
    record->retired = true;
    record->completed = good;
    record->took = took;
  }
  auto& last = group_->status.lastCompletedSeq;
  if (good && sequence != 0) last = std::max(last, static_cast<int64_t>(sequence));
}

c10::IValue flight_trace(bool collectives, bool stack_traces, bool only_active) {
  Recorder recorder;
  copy_all(recorder);
  auto trace = c10d::new_dict();
  trace.insert(c10d::pg_config_key, recorder.getPgConfig());
  trace.insert(c10d::pg_status_key, recorder.getPgStatus());
  if (collectives) trace.insert(c10d::entries_key, recorder.getCollectiveTrace(stack_traces, only_active));
  return trace;
}

std::string flight_trace_json(bool collectives, bool only_active) {
  Recorder recorder;
  copy_all(recorder);
  return recorder.dump_json(std::nullopt, collectives, only_active);
}

}  // namespace floe_torch
