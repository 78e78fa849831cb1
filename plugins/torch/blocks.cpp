// Backend's collectives of lists of tensors, and gather, scatter and all_to_all: floe's collectives of
// blocks, which find the tensors where they are.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <unordered_set>

#include "backend.h"
#include "staging.h"

namespace floe_torch {
namespace {

using Tensors = std::vector<at::Tensor>;

// Floe's arrays: offsets are in elements from `data`.
struct Blocks {
  std::byte* data = nullptr;
  std::vector<uint64_t> counts, offsets;
};

// Whether floe can take the tensor where it is: offsets count whole elements from another tensor's address.
bool in_its_place(const at::Tensor& tensor) {
  return tensor.is_contiguous() &&
         reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % tensor.element_size() == 0;
}

// The tensors' memory as blocks of the one that starts lowest.
Blocks blocks_of(const std::vector<Elements>& parts, uint64_t element) {
  Blocks blocks;
  for (const Elements& part : parts)
    if (part.count != 0 && (!blocks.data || part.data < blocks.data))
      blocks.data = static_cast<std::byte*>(part.data);
  for (const Elements& part : parts) {
    const auto* const start = static_cast<std::byte*>(part.data);
    blocks.counts.push_back(part.count);
    blocks.offsets.push_back(part.count == 0 ? 0 : static_cast<uint64_t>(start - blocks.data) / element);
  }
  return blocks;
}

// Bytes of one of the elements that floe is told of.
uint64_t element_bytes(const at::Tensor& tensor, const Elements& told) {
  return told.count == 0 ? 1 : tensor.nbytes() / told.count;
}

Blocks blocks_to_move(const Tensors& tensors) {
  std::vector<Elements> parts;
  uint64_t element = 1;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(to_move(tensor));
    element = std::max(element, element_bytes(tensor, parts.back()));
  }
  return blocks_of(parts, element);
}

// Parts of one contiguous tensor, of the given numbers of rows or equal ones.
Blocks blocks_of_rows(const char* what, const at::Tensor& tensor, const std::vector<int64_t>& splits,
                      int size) {
  for (const int64_t split : splits) TORCH_CHECK(split >= 0, what, ": a split size is ", split);
  c10d::checkSplitSizes(splits, tensor, size);
  Blocks blocks;
  blocks.counts.resize(size);
  blocks.offsets.resize(size);
  c10d::computeLengthsAndOffsets(splits, tensor, &blocks.counts, &blocks.offsets);
  const Elements all = to_move(tensor);
  blocks.data = static_cast<std::byte*>(all.data);
  const uint64_t scale = all.count == 0 ? 1 : all.count / static_cast<uint64_t>(tensor.numel());
  for (auto* array : {&blocks.counts, &blocks.offsets})
    for (uint64_t& entry : *array) entry *= scale;
  return blocks;
}

// Tensors to receive into: the given ones where floe can use them. One that is given several times, as in
// [tensor] * world_size, ends with what the last rank of it sent, as over other backends.
Tensors block_landing_for(const Tensors& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensors landing;
  std::unordered_set<const void*> taken;
  for (const at::Tensor& tensor : tensors) {
    const bool fits = in_its_place(tensor) && taken.insert(tensor.const_data_ptr()).second;
    landing.push_back(fits ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous));
  }
  return landing;
}

// Tensors to send from.
Tensors departing(const Tensors& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensors result;
  for (const at::Tensor& tensor : tensors)
    result.push_back(in_its_place(tensor) ? tensor : tensor.clone(at::MemoryFormat::Contiguous));
  return result;
}

// One tensor per rank, all of `model`'s type, of any size but the one for this rank, which is `model`'s.
void check_blocks(const char* what, const Tensors& list, int size, int rank, const at::Tensor& model) {
  TORCH_CHECK(static_cast<int>(list.size()) == size, what, ": a list of ", list.size(),
              " tensors is given where ", size, " are needed, one per rank");
  for (const at::Tensor& tensor : list) {
    check_input(what, tensor);
    TORCH_CHECK(tensor.scalar_type() == model.scalar_type(), what, ": the tensors have different types, ",
                tensor.scalar_type(), " and ", model.scalar_type());
  }
  check_match(what, list[rank], model);
}

}  // namespace

// ---- Lists ----------------------------------------------------------------------------------------------

Backend::WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& opts) {
  constexpr const char* what = "floe:all_gather";
  const at::Tensor& input = single(what, inputs);
  TORCH_CHECK(outputs.size() == 1, what, ": takes one list of outputs, got ", outputs.size());
  const Tensors& list = outputs.front();
  check_blocks(what, list, size_, rank_, input);
  const Tensors landing = block_landing_for(list);
  const at::Tensor part = packed(input);
  const auto call = [part, from = to_move(part), to = blocks_to_move(landing)](floe_comm_t* comm,
                                                                               floe_request_t** request) {
    return floe_all_gather_v(comm, from.data, to.data, to.counts.data(), to.offsets.data(), from.type,
                             request);
  };
  return launch({.type = c10d::OpType::ALLGATHER,
                 .title = what,
                 .inputs = inputs,
                 .outputs = outputs,
                 .calls = {call},
                 .epilogue = copy_out(landing, list),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                         const c10d::ReduceScatterOptions& opts) {
  constexpr const char* what = "floe:reduce_scatter";
  const at::Tensor& output = single_output(what, outputs);
  TORCH_CHECK(inputs.size() == 1, what, ": takes one list of inputs, got ", inputs.size());
  check_blocks(what, inputs.front(), size_, rank_, output);
  const at::Tensor landing = landing_for(output);
  const Reduction to = to_reduce(what, landing, opts.reduceOp);  // before anything is copied
  const Tensors parts = departing(inputs.front());
  std::vector<Elements> elements;
  uint64_t element = 1;
  for (const at::Tensor& tensor : parts) {
    elements.push_back(to_reduce(what, tensor, opts.reduceOp).elements);
    element = std::max(element, element_bytes(tensor, elements.back()));
  }
  const auto call = [to, from = blocks_of(elements, element)](floe_comm_t* comm, floe_request_t** request) {
    return with_op(comm, to, [&](floe_op_t op) {
      return floe_reduce_scatter_v(comm, from.data, to.elements.data, from.counts.data(), from.offsets.data(),
                                   to.elements.type, op, request);
    });
  };
  return launch({.type = c10d::OpType::REDUCE_SCATTER,
                 .title = what,
                 .inputs = parts,
                 .outputs = {outputs},
                 .calls = {call},
                 .epilogue = copy_out(landing, output),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

// ---- To and from a root ---------------------------------------------------------------------------------

Backend::WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  constexpr const char* what = "floe:gather";
  const uint32_t root = root_rank(what, opts.rootRank);
  const at::Tensor& input = single(what, inputs);
  Tensors list, landing;
  if (rank_ == opts.rootRank) {
    TORCH_CHECK(outputs.size() == 1, what, ": the root needs one list of outputs, got ", outputs.size());
    list = outputs.front();
    check_blocks(what, list, size_, rank_, input);
    landing = block_landing_for(list);
  } else {
    TORCH_CHECK(outputs.empty(), what, ": only the root has outputs");
  }
  const at::Tensor part = packed(input);
  const auto call = [part, from = to_move(part), to = blocks_to_move(landing), root](
                        floe_comm_t* comm, floe_request_t** request) {
    return floe_gather_v(comm, from.data, from.count, to.data, to.counts.data(), to.offsets.data(), from.type,
                         root, request);
  };
  return launch({.type = c10d::OpType::GATHER,
                 .title = what,
                 .inputs = inputs,
                 .outputs = outputs,
                 .calls = {call},
                 .epilogue = copy_out(landing, list),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  constexpr const char* what = "floe:scatter";
  const uint32_t root = root_rank(what, opts.rootRank);
  const at::Tensor& output = single_output(what, outputs);
  const at::Tensor landing = landing_for(output);
  Tensors parts;
  if (rank_ == opts.rootRank) {
    TORCH_CHECK(inputs.size() == 1, what, ": the root needs one list of inputs, got ", inputs.size());
    check_blocks(what, inputs.front(), size_, rank_, output);
    parts = departing(inputs.front());
  } else {
    TORCH_CHECK(inputs.empty(), what, ": only the root has inputs");
  }
  const auto call = [to = to_move(landing), from = blocks_to_move(parts), root](floe_comm_t* comm,
                                                                                floe_request_t** request) {
    return floe_scatter_v(comm, from.data, from.counts.data(), from.offsets.data(), to.data, to.count,
                          to.type, root, request);
  };
  return launch({.type = c10d::OpType::SCATTER,
                 .title = what,
                 .inputs = parts,
                 .outputs = {outputs},
                 .calls = {call},
                 .epilogue = copy_out(landing, output),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

// ---- All to all -----------------------------------------------------------------------------------------

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  constexpr const char* what = "floe:all_to_all";
  TORCH_CHECK(!inputs.empty(), what, ": the list of inputs is empty");
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_, what, ": a list of ", outputs.size(),
              " tensors is given where ", size_, " are needed, one per rank");
  check_output(what, outputs[rank_]);
  check_blocks(what, inputs, size_, rank_, outputs[rank_]);
  check_blocks(what, outputs, size_, rank_, inputs[rank_]);
  const Tensors parts = departing(inputs), landing = block_landing_for(outputs);
  const auto call = [from = blocks_to_move(parts), to = blocks_to_move(landing),
                     type = to_move(parts.front()).type](floe_comm_t* comm, floe_request_t** request) {
    return floe_all_to_all_v(comm, from.data, from.counts.data(), from.offsets.data(), to.data,
                             to.counts.data(), to.offsets.data(), type, request);
  };
  return launch({.type = c10d::OpType::ALLTOALL,
                 .title = what,
                 .inputs = parts,
                 .outputs = {outputs},
                 .calls = {call},
                 .epilogue = copy_out(landing, outputs),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>& output_splits,
                                        std::vector<int64_t>& input_splits,
                                        const c10d::AllToAllOptions& opts) {
  constexpr const char* what = "floe:all_to_all";
  check_input(what, input);
  check_output(what, output);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), what, ": input and output have different types, ",
              input.scalar_type(), " and ", output.scalar_type());
  const at::Tensor rows = packed(input), landing = landing_for(output);
  const auto call = [rows, to = blocks_of_rows(what, landing, output_splits, size_),
                     from = blocks_of_rows(what, rows, input_splits, size_),
                     type = to_move(rows).type](floe_comm_t* comm, floe_request_t** request) {
    return floe_all_to_all_v(comm, from.data, from.counts.data(), from.offsets.data(), to.data,
                             to.counts.data(), to.offsets.data(), type, request);
  };
  return launch({.type = c10d::OpType::ALLTOALL_BASE,
                 .title = what,
                 .inputs = {input},
                 .outputs = {{output}},
                 .calls = {call},
                 .epilogue = copy_out(landing, output),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

}  // namespace floe_torch
