// What floe sees of a tensor: a pointer, a count and a type. Everything it can't handle is refused here,
// before anything is sent.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <floe/floe.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace floe_torch {

using TensorLists = std::vector<std::vector<at::Tensor>>;

struct Elements {
  void* data;
  uint64_t count;
  floe_type_t type;
};

struct Reduction {
  using Factor = std::array<std::byte, 8>;  // its first bytes: one element

  Elements elements;
  floe_op_t op;
  std::optional<Factor> factor;  // of PREMUL_SUM, whose `op` a communicator makes: see with_op()
};

// A dense CPU tensor, with any strides, whose memory means what its elements say.
void check_input(const char* what, const at::Tensor& tensor);
// The same, and each element has memory of its own.
void check_output(const char* what, const at::Tensor& tensor);
// The operation's only tensor, checked as an input or as an output.
const at::Tensor& single(const char* what, const std::vector<at::Tensor>& tensors);
const at::Tensor& single_output(const char* what, const std::vector<at::Tensor>& tensors);

// The tensors from here on are contiguous.
// For operations that only move data: any type, as integers of the same size.
Elements to_move(const at::Tensor& tensor);
// For reductions.
Reduction to_reduce(const char* what, const at::Tensor& tensor, const c10d::ReduceOp& op);
// Starts the reduction with its operation, which for PREMUL_SUM lives while `start` runs.
floe_status_t with_op(floe_comm_t* comm, const Reduction& reduction,
                      c10::function_ref<floe_status_t(floe_op_t)> start);

// Throws unless the types are equal and `a` has `factor` times as many elements as `b`.
void check_match(const char* what, const at::Tensor& a, const at::Tensor& b, int64_t factor = 1);
// Outputs, each checked, and all like `model` in type and number of elements.
void check_list(const char* what, const std::vector<at::Tensor>& tensors, int64_t size,
                const at::Tensor& model);

// One contiguous tensor to receive all of them into, one after another: the memory they have, if it is that
// already. unflatten() then copies out what is not there yet.
at::Tensor flat_like(const std::vector<at::Tensor>& tensors);
void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);

}  // namespace floe_torch
