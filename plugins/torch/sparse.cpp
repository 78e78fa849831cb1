// all_reduce of sparse tensors: every rank gathers the elements of all, and adds those of equal indices.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "backend.h"
#include "staging.h"

namespace floe_torch {
namespace {

constexpr const char* kWhat = "floe:all_reduce";
constexpr size_t kMostDimensions = 12;

// What ranks tell each other before they exchange elements.
struct Shape {
  int64_t elements, sparse_dimensions, dimensions, type;
  std::array<int64_t, kMostDimensions> sizes;

  bool same_tensor(const Shape& other) const {
    return sparse_dimensions == other.sparse_dimensions && dimensions == other.dimensions &&
           type == other.type && sizes == other.sizes;
  }
};

Shape shape_of(const at::Tensor& tensor) {
  Shape shape{
      tensor._nnz(), tensor.sparse_dim(), tensor.dim(), static_cast<int64_t>(tensor.scalar_type()), {}};
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), shape.sizes.begin());
  return shape;
}

void check_sparse(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  TORCH_CHECK(tensor.is_cpu() && tensor.layout() == at::kSparse, kWhat, ": a tensor is ", tensor.layout(),
              " on ", tensor.device(), ": floe takes those of to_sparse() on CPUs");
  TORCH_CHECK(op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG, kWhat,
              ": sparse tensors can be reduced with SUM and AVG only: an element that a rank does not have "
              "counts as 0");
  TORCH_CHECK(op.op_ == c10d::ReduceOp::SUM || c10::isFloatingType(tensor.scalar_type()), kWhat,
              ": floe has no ReduceOp.AVG of ", tensor.scalar_type());
  TORCH_CHECK(tensor.dim() <= static_cast<int64_t>(kMostDimensions), kWhat, ": a sparse tensor has ",
              tensor.dim(), " dimensions: at most ", kMostDimensions, " can be reduced");
}

// Below autograd in these two alone: a work passes the state of the thread that starts it on to its
// callbacks.
at::Tensor coalesced(const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return tensor.detach().coalesce();
}

// This rank's elements, and where those of all go.
struct Rows {
  at::Tensor indices, values, all_indices, all_values;
};

Rows rows_of(const at::Tensor& tensor, int64_t elements) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Rows rows{packed(tensor._indices().t()), packed(tensor._values()), {}, {}};
  rows.all_indices = at::empty({elements, tensor.sparse_dim()}, rows.indices.options());
  auto sizes = rows.values.sizes().vec();
  sizes.front() = elements;
  rows.all_values = at::empty(sizes, rows.values.options());
  return rows;
}

// One block of rows from each rank, one after another.
Operation::Call gather_call(const at::Tensor& rows, const at::Tensor& all, const std::vector<Shape>& shapes) {
  const Elements from = to_move(rows);
  std::vector<uint64_t> counts, offsets;
  // Not of to_move(): of types of 16 bytes it counts bytes. A rank may have no row.
  const int64_t total = all.size(0);
  const uint64_t per_row = total == 0 ? 0 : to_move(all).count / static_cast<uint64_t>(total);
  uint64_t offset = 0;
  for (const Shape& shape : shapes) {
    counts.push_back(per_row * static_cast<uint64_t>(shape.elements));
    offsets.push_back(offset);
    offset += counts.back();
  }
  return [=](floe_comm_t* comm, floe_request_t** request) {
    return floe_all_gather_v(comm, rows.const_data_ptr(), all.data_ptr(), counts.data(), offsets.data(),
                             from.type, request);
  };
}

// 16- and 8-bit floats are added in float32, in rank order, and rounded once.
at::Tensor sum(const at::Tensor& indices, const at::Tensor& values, const at::Tensor& like, bool average,
               int ranks) {
  const bool narrow = c10::isFloatingType(like.scalar_type()) && like.element_size() < 4;
  at::Tensor total = at::_sparse_coo_tensor_unsafe(
      indices.t(), narrow ? values.to(at::kFloat) : values, like.sizes(),
      like.options().dtype(narrow ? at::kFloat : like.scalar_type()), /*is_coalesced=*/false);
  total = total.coalesce();
  at::Tensor sums = total._values();
  if (average) sums = sums / ranks;
  return at::_sparse_coo_tensor_unsafe(total._indices(), sums.to(like.scalar_type()), like.sizes(),
                                       like.options(), /*is_coalesced=*/true);
}

}  // namespace

Backend::WorkPtr Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  TORCH_CHECK(tensors.size() == 1, kWhat, ": takes one tensor, got ", tensors.size());
  at::Tensor tensor = tensors.front();
  check_sparse(tensor, opts.reduceOp);
  const at::Tensor mine = coalesced(tensor);

  // The sizes of what follows depend on all ranks, so this exchange is over before anything else starts, also
  // when the caller does not wait.
  const Shape own = shape_of(mine);
  std::vector<Shape> shapes(static_cast<size_t>(size_));
  const WorkPtr exchange =
      launch({.type = c10d::OpType::_ALLREDUCE_SPARSE,
              .title = kWhat,
              .inputs = {},
              .outputs = {},
              .calls = {[&](floe_comm_t* comm, floe_request_t** request) {
                return floe_all_gather(comm, &own, shapes.data(), sizeof own, FLOE_UINT8, request);
              }},
              .asynchronous = false,
              .timeout = opts.timeout});
  if (exchange) exchange->wait();
  int64_t elements = 0;
  for (int rank = 0; rank < size_; ++rank) {
    const Shape& shape = shapes[static_cast<size_t>(rank)];
    // All ranks find the same.
    TORCH_CHECK(shape.same_tensor(shapes.front()), kWhat, ": the sparse tensors of ranks 0 and ", rank,
                " have different types, sizes or numbers of sparse dimensions");
    elements += shape.elements;
  }

  const Rows rows = rows_of(mine, elements);
  const bool average = opts.reduceOp.op_ == c10d::ReduceOp::AVG;
  return launch({.type = c10d::OpType::_ALLREDUCE_SPARSE,
                 .title = kWhat,
                 .inputs = tensors,
                 .outputs = {tensors},
                 .calls = {gather_call(rows.indices, rows.all_indices, shapes),
                           gather_call(rows.values, rows.all_values, shapes)},
                 .epilogue =
                     [=, ranks = size_](const auto&) {
                       const at::AutoDispatchBelowADInplaceOrView below;
                       tensor.copy_(sum(rows.all_indices, rows.all_values, mine, average, ranks));
                     },
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

}  // namespace floe_torch
