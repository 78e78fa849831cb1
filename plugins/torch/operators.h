// Operators for programs that call collectives where every microsecond counts, as inference does: no work and
// no future, and the dispatcher alone between the program and floe's blocking call. torch.compile knows them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace floe_torch {

// Reduces `tensor` over the ranks of the process group named `group`, in place; returns when that is done.
// `op`: sum, avg, product, min, max, band, bor or bxor. Not differentiable. Throws.
void all_reduce_(const at::Tensor& tensor, const std::string& group, const std::string& op);
// Of tensors without data: what all_reduce_ does to their shapes, which is nothing.
void all_reduce_meta(const at::Tensor& tensor, const std::string& group, const std::string& op);

}  // namespace floe_torch
