// How Python reaches the backend: operators, so that no Python.h is needed and one library serves every
// Python of a torch minor.
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "backend.h"
#include "flight.h"
#include "levels.h"
#include "operators.h"
#include "process.h"

namespace {

// Creates the backend of `group`, collectively, and makes it the group's for CPU tensors.
void attach(const c10::intrusive_ptr<c10d::ProcessGroup>& group, int64_t timeout_ms, const std::string& name,
            const std::vector<int64_t>& members) {
  auto backend = floe_torch::Backend::create(group->getStore(), group->getRank(), group->getSize(), name,
                                             std::chrono::milliseconds(timeout_ms));
  backend->set_members({members.begin(), members.end()});
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
}

}  // namespace

TORCH_LIBRARY(floe, m) {
  m.def(
      "_attach(__torch__.torch.classes.c10d.ProcessGroup group, int timeout_ms, str name, int[] members) -> "
      "()",
      attach);
  // Of the flight recorder: see flight.h.
  m.def("_flight_trace(bool collectives, bool stack_traces, bool only_active) -> Any",
        floe_torch::flight_trace);
  m.def("_flight_trace_json(bool collectives, bool only_active) -> str", floe_torch::flight_trace_json);
  m.def("all_reduce_(Tensor(a!) tensor, str group, str op=\"sum\") -> ()", {at::Tag::pt2_compliant_tag});
  m.impl("all_reduce_", torch::dispatch(c10::DispatchKey::CPU, floe_torch::all_reduce_));
  m.impl("all_reduce_", torch::dispatch(c10::DispatchKey::Meta, floe_torch::all_reduce_meta));
  m.def("_shutdown() -> ()", [] { floe_torch::Process::shutdown_with_python(); });
  // The level of this thread, and its change, which returns the one before: see levels.h.
  m.def("_level() -> int", []() -> int64_t { return floe_torch::this_level(); });
  m.def("_enter_level(int level) -> int", [](int64_t level) -> int64_t {
    return floe_torch::enter_level(static_cast<int>(std::clamp<int64_t>(level, 0, floe_torch::kLevels)));
  });
}
