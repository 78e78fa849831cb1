// What PyTorch's flight recorder knows of floe's operations.
//
// The recorder that is in libtorch can't be reached by other libraries. This is one more of its template;
// torch_floe adds its entries to what torch._C._distributed_c10d._dump_fr_trace answers.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace c10d {
struct ProcessGroupStatus;
}

namespace floe_torch {

// A process group as the recorder sees it.
class FlightLog {
 public:
  FlightLog();
  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  struct Operation {
    const std::string& group;  // PyTorch's name and description of the group
    const std::string& description;
    const char* title;
    const std::vector<at::Tensor>& inputs;
    const std::vector<at::Tensor>& outputs;
    uint64_t sequence;  // of collectives; 0: a message
    std::chrono::milliseconds timeout;
    bool blocking;
  };
  // Where an operation is in the recorder: nowhere, if that is off (TORCH_FR_BUFFER_SIZE=0).
  struct Entry {
    std::optional<size_t> id, epoch;
  };

  // On the thread that issues the operation. Its stack is taken, with Python's lock, unless the operation is
  // a blocking one: that would take longer than a short operation, and as long as that runs torch_floe can
  // see the stack from another thread.
  Entry started(const Operation& operation);
  // The stack of this thread, for a blocking operation that has failed on it.
  void add_stack(const Entry& entry);
  // One that failed stays what it was, "started", but retired: so PyTorch's tools know it.
  void ended(const Entry& entry, uint64_t sequence, bool good, std::chrono::duration<float, std::milli> took);
  // The group's ranks in the whole job.
  void members(const std::string& group, const std::string& description, std::vector<uint64_t> ranks);

 private:
  const size_t id_;
  const std::shared_ptr<c10d::ProcessGroupStatus> status_;
  uint64_t messages_ = 0, operations_ = 0;  // under the recorder's mutex
};

// As the dump of the recorder in libtorch would have it: a dict for Python, or JSON.
c10::IValue flight_trace(bool collectives, bool stack_traces, bool only_active);
std::string flight_trace_json(bool collectives, bool only_active);

}  // namespace floe_torch
