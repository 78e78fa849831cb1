#include "staging.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

namespace floe_torch {

at::Tensor packed(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return tensor.contiguous();
}

at::Tensor landing_for(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::empty_like(tensor, at::MemoryFormat::Contiguous);
}

std::vector<at::Tensor> packed(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(packed(tensor));
  return result;
}

std::vector<at::Tensor> landing_for(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(landing_for(tensor));
  return result;
}

Operation::Epilogue copy_out(const at::Tensor& landing, const at::Tensor& tensor) {
  if (landing.is_same(tensor)) return nullptr;
  return copy_out(std::vector{landing}, std::vector{tensor});
}

Operation::Epilogue copy_out(const std::vector<at::Tensor>& landing, const std::vector<at::Tensor>& tensors) {
  const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
  if (std::equal(landing.begin(), landing.end(), tensors.begin(), tensors.end(), same)) return nullptr;
  return [landing, tensors](const auto&) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!landing[i].is_same(tensors[i])) tensors[i].copy_(landing[i]);
  };
}

}  // namespace floe_torch
