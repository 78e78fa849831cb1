// What PyTorch's flight recorder knows of floe's operations.
//
// The recorder that is in libtorch can't be reached by other libraries. This is one more; torch_floe adds its
// entries to what torch._C._distributed_c10d._dump_fr_trace answers.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace floe_torch {

// A process group as the recorder sees it. An operation takes two locks and a few hundred bytes of a ring
// here; PyTorch's entries are made of that when somebody asks.
class FlightLog {
 public:
  FlightLog() = default;
  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  struct Operation {
    const char* title;  // not copied
    const std::vector<at::Tensor>& inputs;
    const std::vector<at::Tensor>& outputs;
    uint64_t sequence;  // of collectives; 0: a message
    std::chrono::milliseconds timeout;
    bool blocking;
  };
  // An operation's number: none if the recorder is off (TORCH_FR_BUFFER_SIZE=0).
  using Entry = std::optional<uint64_t>;

  // PyTorch's name and description of the group, and its ranks in the whole job. Before the first operation.
  void describe(const std::string& name, const std::string& description, std::vector<uint64_t> ranks);
  // On the thread that issues the operation. Its stack is taken, with Python's lock, unless the operation is
  // a blocking one: that would take longer than a short operation, and as long as that runs torch_floe can
  // see the stack from another thread.
  Entry started(const Operation& operation);
  // The stack of this thread, for a blocking operation that has failed on it.
  void add_stack(Entry entry);
  // One that failed stays what it was, "started", but retired: so PyTorch's tools know it.
  void ended(Entry entry, uint64_t sequence, bool good, std::chrono::nanoseconds took);

  struct Group;

 private:
  Group* group_ = nullptr;  // the recorder's, which keeps it; null if that is off
};

// As the dump of the recorder in libtorch would have it: a dict for Python, or JSON.
c10::IValue flight_trace(bool collectives, bool stack_traces, bool only_active);
std::string flight_trace_json(bool collectives, bool only_active);

}  // namespace floe_torch
