// Tensors that floe can't take where they are: contiguous ones in their place.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "work.h"

namespace floe_torch {

// The tensor itself if it is contiguous, else a contiguous copy.
at::Tensor packed(const at::Tensor& tensor);
std::vector<at::Tensor> packed(const std::vector<at::Tensor>& tensors);
// The tensor itself if it is contiguous, else a contiguous one like it to receive into.
at::Tensor landing_for(const at::Tensor& tensor);
std::vector<at::Tensor> landing_for(const std::vector<at::Tensor>& tensors);
// Keeps `landing`, and copies what stands in for a tensor there to the tensor itself.
Operation::Epilogue copy_out(const at::Tensor& landing, const at::Tensor& tensor);
Operation::Epilogue copy_out(const std::vector<at::Tensor>& landing, const std::vector<at::Tensor>& tensors);

}  // namespace floe_torch
