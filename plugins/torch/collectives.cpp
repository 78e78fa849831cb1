// Backend's collectives of tensors whose sizes ranks have in common.
#include <c10/util/Exception.h>

#include "backend.h"
#include "errors.h"
#include "exit_gate.h"
#include "staging.h"

namespace floe_torch {
namespace {

using Call = Operation::Call;

floe_status_t call_all_reduce(floe_comm_t* comm, const Reduction& r, floe_request_t** request) {
  return with_op(comm, r, [&](floe_op_t op) {
    return floe_all_reduce(comm, FLOE_IN_PLACE, r.elements.data, r.elements.count, r.elements.type, op,
                           request);
  });
}

Call all_reduce_call(const Reduction& r) {
  return [r](floe_comm_t* comm, floe_request_t** request) { return call_all_reduce(comm, r, request); };
}

// The tensors are kept until the operation has ended: they may be scratch that nobody else has.
Call all_gather_call(const at::Tensor& input, const at::Tensor& output) {
  return [input, output](floe_comm_t* comm, floe_request_t** request) {
    const Elements from = to_move(input);
    return floe_all_gather(comm, from.data, output.data_ptr(), from.count, from.type, request);
  };
}

// As above for `input`; the output's owner keeps it.
Call reduce_scatter_call(const char* what, const at::Tensor& input, const at::Tensor& output,
                         const c10d::ReduceOp& op) {
  const Reduction to = to_reduce(what, output, op);
  return [input, to](floe_comm_t* comm, floe_request_t** request) {
    return with_op(comm, to, [&](floe_op_t op) {
      return floe_reduce_scatter(comm, input.data_ptr(), to.elements.data, to.elements.count,
                                 to.elements.type, op, request);
    });
  };
}

void check_pairs(const char* what, const std::vector<at::Tensor>& outputs,
                 const std::vector<at::Tensor>& inputs) {
  TORCH_CHECK(!outputs.empty() && outputs.size() == inputs.size(), what, ": lists of ", outputs.size(),
              " outputs and ", inputs.size(), " inputs are given: equally many are needed, and at least one");
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_output(what, outputs[i]);
    check_input(what, inputs[i]);
  }
}

}  // namespace

// ---- Reductions -----------------------------------------------------------------------------------------

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  constexpr const char* what = "floe:all_reduce";
  if (tensors.size() == 1 && tensors.front().is_sparse()) return allreduce_sparse(tensors, opts);
  const at::Tensor buffer = packed(single_output(what, tensors));
  const Reduction r = to_reduce(what, buffer, opts.reduceOp);
  Operation::Epilogue epilogue = copy_out(buffer, tensors.front());
  if (blocks(opts.asyncOp, opts.timeout)) {
    // As launch() would do it, less the lists that go with a work.
    run({.type = c10d::OpType::ALLREDUCE,
         .title = what,
         .inputs = tensors,
         .outputs = tensors,
         .call = [&](floe_comm_t* comm) { return call_all_reduce(comm, r, nullptr); },
         .epilogue = epilogue});
    return nullptr;
  }
  return launch({.type = c10d::OpType::ALLREDUCE,
                 .title = what,
                 .inputs = tensors,
                 .outputs = {tensors},
                 .calls = {all_reduce_call(r)},
                 .epilogue = std::move(epilogue),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

void Backend::all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  constexpr const char* what = "floe:all_reduce";
  const ExitGate gate;
  check_output(what, tensor);
  const at::Tensor buffer = packed(tensor);
  const Reduction r = to_reduce(what, buffer, op);
  Level& at = level(what);
  const Chain::UnderWay creating(this_chain());
  const auto comm = communicator(at);
  ++sequence_;
  const floe_status_t status = call_all_reduce(comm->handle(), r, nullptr);
  if (status != FLOE_OK) {
    health_->note(status);
    check(status, what);
  }
  if (const auto finish = copy_out(buffer, tensor)) finish({});
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  constexpr const char* what = "floe:all_reduce";
  TORCH_CHECK(!tensors.empty(), what, ": the list of tensors is empty");
  std::vector<Call> calls;
  for (const at::Tensor& tensor : tensors) check_output(what, tensor);
  const Tensors buffers = packed(tensors);
  for (const at::Tensor& buffer : buffers)
    calls.push_back(all_reduce_call(to_reduce(what, buffer, opts.reduceOp)));
  return launch({.type = c10d::OpType::ALLREDUCE_COALESCED,
                 .title = what,
                 .inputs = tensors,
                 .outputs = {tensors},
                 .calls = std::move(calls),
                 .epilogue = copy_out(buffers, tensors),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  constexpr const char* what = "floe:reduce";
  const uint32_t root = root_rank(what, opts.rootRank);
  const at::Tensor buffer = packed(single_output(what, tensors));
  const Reduction r = to_reduce(what, buffer, opts.reduceOp);
  const bool is_root = rank_ == opts.rootRank;
  const Call call = [r, root, is_root](floe_comm_t* comm, floe_request_t** request) {
    return with_op(comm, r, [&](floe_op_t op) {
      return floe_reduce(comm, is_root ? FLOE_IN_PLACE : r.elements.data, is_root ? r.elements.data : nullptr,
                         r.elements.count, r.elements.type, op, root, request);
    });
  };
  return launch({.type = c10d::OpType::REDUCE,
                 .title = what,
                 .inputs = tensors,
                 .outputs = {tensors},
                 .calls = {call},
                 .epilogue = copy_out(buffer, tensors.front()),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& opts) {
  Tensors outputs = {output}, inputs = {input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& opts) {
  constexpr const char* what = "floe:reduce_scatter";
  check_pairs(what, outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) check_match(what, inputs[i], outputs[i], size_);
  const Tensors landing = landing_for(outputs);
  std::vector<Call> calls;
  for (size_t i = 0; i < inputs.size(); ++i)
    calls.push_back(reduce_scatter_call(what, packed(inputs[i]), landing[i], opts.reduceOp));
  return launch({.type = c10d::OpType::_REDUCE_SCATTER_BASE,
                 .title = what,
                 .inputs = inputs,
                 .outputs = {outputs},
                 .calls = std::move(calls),
                 .epilogue = copy_out(landing, outputs),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

// ---- Movement -------------------------------------------------------------------------------------------

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  constexpr const char* what = "floe:broadcast";
  const uint32_t root = root_rank(what, opts.rootRank);
  const at::Tensor buffer = packed(single_output(what, tensors));
  const Elements e = to_move(buffer);
  const Call call = [e, root](floe_comm_t* comm, floe_request_t** request) {
    return floe_broadcast(comm, e.data, e.count, e.type, root, request);
  };
  return launch({.type = c10d::OpType::BROADCAST,
                 .title = what,
                 .inputs = tensors,
                 .outputs = {tensors},
                 .calls = {call},
                 .epilogue = copy_out(buffer, tensors.front()),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& opts) {
  Tensors outputs = {output}, inputs = {input};
  return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& opts) {
  constexpr const char* what = "floe:all_gather";
  check_pairs(what, outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) check_match(what, outputs[i], inputs[i], size_);
  const Tensors landing = landing_for(outputs);
  std::vector<Call> calls;
  for (size_t i = 0; i < inputs.size(); ++i) calls.push_back(all_gather_call(packed(inputs[i]), landing[i]));
  return launch({.type = c10d::OpType::_ALLGATHER_BASE,
                 .title = what,
                 .inputs = inputs,
                 .outputs = {outputs},
                 .calls = std::move(calls),
                 .epilogue = copy_out(landing, outputs),
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

// outputs[rank][i] is `rank`'s inputs[i].
Backend::WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) {
  constexpr const char* what = "floe:all_gather";
  TORCH_CHECK(!inputs.empty(), what, ": the list of inputs is empty");
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_, what, ": ", outputs.size(),
              " lists of outputs are given where ", size_, " are needed, one per rank");
  for (const Tensors& list : outputs)
    TORCH_CHECK(list.size() == inputs.size(), what, ": a list of ", list.size(), " outputs is given where ",
                inputs.size(), " are needed, one per input");
  std::vector<Call> calls;
  Tensors flats;
  TensorLists columns;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_input(what, inputs[i]);
    Tensors column;
    for (const Tensors& list : outputs) column.push_back(list[i]);
    check_list(what, column, size_, inputs[i]);
    flats.push_back(flat_like(column));
    columns.push_back(std::move(column));
    calls.push_back(all_gather_call(packed(inputs[i]), flats.back()));
  }
  return launch({.type = c10d::OpType::ALLGATHER_COALESCED,
                 .title = what,
                 .inputs = inputs,
                 .outputs = outputs,
                 .calls = std::move(calls),
                 .epilogue =
                     [flats = std::move(flats), columns = std::move(columns)](const auto&) {
                       for (size_t i = 0; i < flats.size(); ++i) unflatten(flats[i], columns[i]);
                     },
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& opts) {
  return launch({.type = c10d::OpType::BARRIER,
                 .title = "floe:barrier",
                 .inputs = {},
                 .outputs = {},
                 .calls = {floe_barrier},
                 .asynchronous = opts.asyncOp,
                 .timeout = opts.timeout});
}

}  // namespace floe_torch
