// floe as PyTorch's c10d backend, for C++ programs: link with libfloe_torch.so. Python needs none of this.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace floe {

// Makes this process a rank of a group, for CPU tensors.
//
//   store    where the ranks find each other; of the group alone: a PrefixStore of its own does
//   rank     0 to size - 1, each once
//   timeout  of the creation, and of each operation that has none of its own
//   name     in messages; the same on all ranks, 1 to 63 printable characters
//
// Collective: blocks until all ranks are connected. Throws c10::Error, or c10::DistBackendError. What the
// program still has at its end ends with it; nothing must be called for that.
[[gnu::visibility("default")]] c10::intrusive_ptr<c10d::Backend> create_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    std::chrono::milliseconds timeout = kBackendDefaultTimeout, const std::string& name = "world");

}  // namespace floe
