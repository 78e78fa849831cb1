#include "tensors.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <optional>

namespace floe_torch {
namespace {

std::optional<floe_type_t> arithmetic_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return FLOE_FLOAT32;
    case at::kDouble: return FLOE_FLOAT64;
    case at::kHalf:
    case at::kComplexHalf: return FLOE_FLOAT16;  // as pairs
    case at::kBFloat16: return FLOE_BFLOAT16;
    case at::kChar: return FLOE_INT8;
    case at::kShort: return FLOE_INT16;
    case at::kInt: return FLOE_INT32;
    case at::kLong: return FLOE_INT64;
    case at::kByte: return FLOE_UINT8;
    case at::kBool: return FLOE_BOOL;
    case at::kComplexFloat: return FLOE_COMPLEX64;
    case at::kComplexDouble: return FLOE_COMPLEX128;
    case at::kFloat8_e4m3fn: return FLOE_FLOAT8_E4M3;
    case at::kFloat8_e5m2: return FLOE_FLOAT8_E5M2;
    case at::kUInt16: return FLOE_UINT16;
    case at::kUInt32: return FLOE_UINT32;
    case at::kUInt64: return FLOE_UINT64;
    default: return std::nullopt;
  }
}

const char* op_name(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return "SUM";
    case c10d::ReduceOp::AVG: return "AVG";
    case c10d::ReduceOp::PRODUCT: return "PRODUCT";
    case c10d::ReduceOp::MIN: return "MIN";
    case c10d::ReduceOp::MAX: return "MAX";
    case c10d::ReduceOp::BAND: return "BAND";
    case c10d::ReduceOp::BOR: return "BOR";
    case c10d::ReduceOp::BXOR: return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "unknown";
  }
}

// Of a premul-sum a handle is made when it is called.
std::optional<floe_op_t> arithmetic_op(c10d::ReduceOp::RedOpType op, at::ScalarType type) {
  const bool floating = c10::isFloatingType(type), complex = c10::isComplexType(type);
  const auto if_defined = [](bool defined, floe_op_t what) {
    return defined ? std::optional(what) : std::nullopt;
  };
  switch (op) {
    case c10d::ReduceOp::SUM: return FLOE_SUM;
    case c10d::ReduceOp::AVG: return if_defined(floating || complex, FLOE_AVG);
    case c10d::ReduceOp::PRODUCT: return if_defined(type != at::kComplexHalf, FLOE_PRODUCT);
    case c10d::ReduceOp::MIN: return if_defined(!complex, FLOE_MIN);
    case c10d::ReduceOp::MAX: return if_defined(!complex, FLOE_MAX);
    case c10d::ReduceOp::BAND: return if_defined(!floating && !complex, FLOE_BAND);
    case c10d::ReduceOp::BOR: return if_defined(!floating && !complex, FLOE_BOR);
    case c10d::ReduceOp::BXOR: return if_defined(!floating && !complex, FLOE_BXOR);
    case c10d::ReduceOp::PREMUL_SUM: return if_defined(floating, FLOE_SUM);
    default: return std::nullopt;
  }
}

// The factor of a premul-sum as an element of `type`.
Reduction::Factor factor_of(const char* what, const c10d::ReduceOp& op, at::ScalarType type) {
  // What PREMUL_SUM comes with, always: see c10d::makePreMulSum.
  const auto* premul = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(premul, what, ": ReduceOp.PREMUL_SUM has no factor");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor given = premul->tensor_factor.defined()
                               ? premul->tensor_factor
                               : at::scalar_tensor(premul->double_factor, at::kDouble);
  const at::Tensor factor = given.to(at::kCPU, type);
  Reduction::Factor bytes{};
  std::memcpy(bytes.data(), factor.const_data_ptr(), factor.element_size());
  return bytes;
}

// Whether the tensors lie one after another in memory, so that the first one's pointer stands for all.
bool adjacent(const std::vector<at::Tensor>& tensors) {
  const auto* next = static_cast<const std::byte*>(tensors.front().const_data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.const_data_ptr() != next || !tensor.is_alias_of(tensors.front()))
      return false;
    next += tensor.nbytes();
  }
  return true;
}

at::Tensor as_one(const std::vector<at::Tensor>& tensors, int64_t elements) {
  return tensors.front().as_strided({elements}, {1});
}

int64_t total(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

}  // namespace

void check_input(const char* what, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), what, ": a tensor is undefined");
  TORCH_CHECK(tensor.layout() == at::kStrided, what, ": a tensor is sparse (", tensor.layout(),
              "): floe takes dense ones; convert it with to_dense()");
  TORCH_CHECK(tensor.is_cpu(), what, ": a tensor is on ", tensor.device(), ": floe takes CPU tensors");
  TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(), what,
              ": a tensor is a conjugate or negative view: call resolve_conj() or resolve_neg() first");
}

void check_output(const char* what, const at::Tensor& tensor) {
  check_input(what, tensor);
  TORCH_CHECK(tensor.is_contiguous() || at::has_internal_overlap(tensor) != at::MemOverlap::Yes, what,
              ": elements of an output share memory (sizes ", tensor.sizes(), ", strides ", tensor.strides(),
              "): call contiguous() first");
}

const at::Tensor& single(const char* what, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, what, ": takes one tensor, got ", tensors.size());
  check_input(what, tensors.front());
  return tensors.front();
}

const at::Tensor& single_output(const char* what, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, what, ": takes one tensor, got ", tensors.size());
  check_output(what, tensors.front());
  return tensors.front();
}

Elements to_move(const at::Tensor& tensor) {
  void* const data = tensor.data_ptr();
  switch (tensor.element_size()) {
    case 1: return {data, static_cast<uint64_t>(tensor.numel()), FLOE_UINT8};
    case 2: return {data, static_cast<uint64_t>(tensor.numel()), FLOE_UINT16};
    case 4: return {data, static_cast<uint64_t>(tensor.numel()), FLOE_UINT32};
    case 8: return {data, static_cast<uint64_t>(tensor.numel()), FLOE_UINT64};
    default: return {data, static_cast<uint64_t>(tensor.nbytes()), FLOE_UINT8};
  }
}

Reduction to_reduce(const char* what, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const at::ScalarType scalar = tensor.scalar_type();
  const auto type = arithmetic_type(scalar);
  TORCH_CHECK(type, what, ": floe can't reduce ", scalar, ", only move it");
  const auto floe_op = arithmetic_op(op.op_, scalar);
  TORCH_CHECK(
      floe_op, what, ": floe has no ReduceOp.", op_name(op.op_), " of ", scalar,
      ": MIN and MAX need an order, AVG and PREMUL_SUM floating-point numbers, and BAND, BOR and BXOR "
      "integers or bool");
  const uint64_t scale = scalar == at::kComplexHalf ? 2 : 1;
  Reduction reduction{
      {tensor.data_ptr(), scale * static_cast<uint64_t>(tensor.numel()), *type}, *floe_op, std::nullopt};
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) reduction.factor = factor_of(what, op, scalar);
  return reduction;
}

floe_status_t with_op(floe_comm_t* comm, const Reduction& reduction,
                      c10::function_ref<floe_status_t(floe_op_t)> start) {
  if (!reduction.factor) return start(reduction.op);
  floe_op_t op = reduction.op;
  const floe_status_t made =
      floe_op_create_premul_sum(comm, reduction.factor->data(), reduction.elements.type, &op);
  if (made != FLOE_OK) return made;
  const floe_status_t status = start(op);
  floe_op_destroy(comm, op);  // what is under way does not need it any more
  return status;
}

void check_match(const char* what, const at::Tensor& a, const at::Tensor& b, int64_t factor) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), what, ": input and output have different types, ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == factor * b.numel(), what, ": a tensor of ", a.numel(), " elements is given where ",
              factor, " x ", b.numel(), " are needed");
}

void check_list(const char* what, const std::vector<at::Tensor>& tensors, int64_t size,
                const at::Tensor& model) {
  TORCH_CHECK(static_cast<int64_t>(tensors.size()) == size, what, ": a list of ", tensors.size(),
              " tensors is given where ", size, " are needed, one per rank");
  for (const at::Tensor& tensor : tensors) {
    check_output(what, tensor);
    check_match(what, tensor, model);
  }
}

at::Tensor flat_like(const std::vector<at::Tensor>& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (adjacent(tensors)) return as_one(tensors, total(tensors));
  return at::empty({total(tensors)}, tensors.front().options().memory_format(std::nullopt));
}

void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  if (flat.is_alias_of(tensors.front())) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

}  // namespace floe_torch
