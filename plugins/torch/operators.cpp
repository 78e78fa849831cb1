#include "operators.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <array>
#include <string_view>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "backend.h"

namespace floe_torch {
namespace {

constexpr const char* kWhat = "floe:all_reduce_";

// As PyTorch's functional collectives name them.
constexpr std::array<std::pair<std::string_view, c10d::ReduceOp::RedOpType>, 8> kOps = {{
    {"sum", c10d::ReduceOp::SUM},
    {"avg", c10d::ReduceOp::AVG},
    {"product", c10d::ReduceOp::PRODUCT},
    {"min", c10d::ReduceOp::MIN},
    {"max", c10d::ReduceOp::MAX},
    {"band", c10d::ReduceOp::BAND},
    {"bor", c10d::ReduceOp::BOR},
    {"bxor", c10d::ReduceOp::BXOR},
}};

c10d::ReduceOp::RedOpType op_named(const std::string& name) {
  for (const auto& [known, op] : kOps)
    if (known == name) return op;
  TORCH_CHECK(false, kWhat, ": op is '", name,
              "': it must be sum, avg, product, min, max, band, bor or bxor");
}

}  // namespace

void all_reduce_(const at::Tensor& tensor, const std::string& group, const std::string& op) {
  TORCH_CHECK(!(at::GradMode::is_enabled() && tensor.requires_grad()), kWhat,
              ": the tensor requires a gradient, which this operator has not:",
              " call it under torch.inference_mode() or torch.no_grad(), or use dist.all_reduce");
  const c10d::ReduceOp reduction = op_named(op);
  const auto backend = c10d::resolve_process_group(group)->getBackend(c10::DeviceType::CPU);
  if (auto* floe = dynamic_cast<Backend*>(backend.get())) return floe->all_reduce(tensor, reduction);
  TORCH_CHECK(backend->getBackendName() == "floe", kWhat, ": process group '", group, "' has ",
              backend->getBackendName(), " for CPU tensors: make it with backend floe");
  // In the wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL, whose checks are what is asked for.
  std::vector<at::Tensor> tensors = {tensor};
  backend->allreduce(tensors, {.reduceOp = reduction})->wait();
}

void all_reduce_meta(const at::Tensor& /*tensor*/, const std::string& /*group*/, const std::string& op) {
  op_named(op);
}

}  // namespace floe_torch
