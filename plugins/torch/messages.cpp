// Backend's messages, and the collectives that are made of messages.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <limits>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "backend.h"
#include "errors.h"

namespace floe_torch {
namespace {

// Callers' tags are not negative and have 31 bits; this bit keeps ours apart.
constexpr uint64_t kExchangeTag = uint64_t{1} << 63;

// A part of a tensor. A message carries bytes.
struct Bytes {
  std::byte* data;
  uint64_t size;
};

Bytes bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<uint64_t>(tensor.nbytes())};
}

uint64_t user_tag(const char* what, int tag) {
  TORCH_CHECK(tag >= 0, what, ": tag is ", tag, ": it must not be negative");
  return static_cast<uint64_t>(tag);
}

void check_received(const char* what, floe_request_t* request, uint64_t expected) {
  floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
  check(floe_request_info(request, &info), what);
  TORCH_CHECK(info.bytes == expected, what, ": rank ", info.source, " sent ", info.bytes,
              " bytes, and the tensor to receive into has ", expected);
}

// Contiguous tensors to receive into: the given ones where they are.
std::vector<at::Tensor> landing_for(const std::vector<at::Tensor>& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> landing;
  for (const at::Tensor& tensor : tensors)
    landing.push_back(tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous));
  return landing;
}

void copy_landed(const std::vector<at::Tensor>& landing, const std::vector<at::Tensor>& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!landing[i].is_same(tensors[i])) tensors[i].copy_(landing[i]);
}

std::vector<at::Tensor> contiguous(const std::vector<at::Tensor>& tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.contiguous());
  return result;
}

Operation::Call send_call(Bytes part, uint32_t destination, uint64_t tag) {
  return [=](floe_comm_t* comm, floe_request_t** request) {
    return floe_send(comm, part.data, part.size, FLOE_UINT8, destination, tag, request);
  };
}

Operation::Call receive_call(Bytes part, uint32_t source, uint64_t tag) {
  return [=](floe_comm_t* comm, floe_request_t** request) {
    return floe_recv(comm, part.data, part.size, FLOE_UINT8, source, tag, request);
  };
}

}  // namespace

// The messages of one collective: at most one between two ranks in each direction.
class Backend::Exchange {
 public:
  Exchange(const char* what, Backend& backend)
      : what_(what), rank_(backend.rank_), tag_(kExchangeTag | ++backend.level(what).exchanges) {}

  void receive(int source, Bytes part) {
    if (source == rank_) {
      own_in_ = part;
    } else {
      calls_.push_back(receive_call(part, static_cast<uint32_t>(source), tag_));
      expected_.push_back(part.size);
    }
  }
  // After all receives, so that a message finds its receiver.
  void send(int destination, Bytes part) {
    if (destination != rank_)
      calls_.push_back(send_call(part, static_cast<uint32_t>(destination), tag_));
    else if (part.size != 0)
      std::memmove(own_in_.data, part.data, part.size);
  }

  std::vector<Operation::Call> calls() const { return calls_; }
  // Checks the sizes received, then does `then`.
  Operation::Epilogue epilogue(std::function<void()> then = nullptr) const {
    return [what = what_, expected = expected_, then](const std::vector<floe_request_t*>& requests) {
      for (size_t i = 0; i < expected.size(); ++i) check_received(what, requests[i], expected[i]);
      if (then) then();
    };
  }

 private:
  const char* what_;
  const int rank_;
  const uint64_t tag_;
  std::vector<Operation::Call> calls_;  // receives first
  std::vector<uint64_t> expected_;      // bytes of each receive
  Bytes own_in_{};
};

// ---- Messages -------------------------------------------------------------------------------------------

Backend::WorkPtr Backend::send(Tensors& tensors, int destination, int tag) {
  constexpr const char* what = "floe:send";
  const Bytes part = bytes_of(single(what, tensors));
  return launch({.type = c10d::OpType::SEND,
                 .title = what,
                 .inputs = tensors,
                 .outputs = {},
                 .calls = {send_call(part, static_cast<uint32_t>(destination), user_tag(what, tag))}});
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int source, int tag) {
  constexpr const char* what = "floe:recv";
  const Bytes part = bytes_of(single(what, tensors));
  TORCH_CHECK(source >= 0 && source < size_, what, ": source is ", source, ": it must be a rank below ",
              size_);
  return launch(
      {.type = c10d::OpType::RECV,
       .title = what,
       .inputs = tensors,
       .outputs = {tensors},
       .calls = {receive_call(part, static_cast<uint32_t>(source), user_tag(what, tag))},
       .epilogue = [part](const auto& requests) { check_received(what, requests.front(), part.size); }});
}

Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  constexpr const char* what = "floe:recvAnySource";  // the name that PyTorch's profiler tests know
  const Bytes part = bytes_of(single(what, tensors));
  return launch(
      {.type = c10d::OpType::RECVANYSOURCE,
       .title = what,
       .inputs = tensors,
       .outputs = {tensors},
       .calls = {receive_call(part, FLOE_ANY_SOURCE, user_tag(what, tag))},
       .epilogue = [part](const auto& requests) { check_received(what, requests.front(), part.size); }});
}

// ---- Collectives ----------------------------------------------------------------------------------------

Backend::WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  constexpr const char* what = "floe:gather";
  const int root = static_cast<int>(root_rank(what, opts.rootRank));
  const at::Tensor& input = single(what, inputs);
  Tensors list, landing;
  if (rank_ == root) {
    TORCH_CHECK(outputs.size() == 1, what, ": the root needs one list of outputs, got ", outputs.size());
    check_list(what, outputs.front(), size_, input);
    list = outputs.front();
    landing = landing_for(list);
  } else {
    TORCH_CHECK(outputs.empty(), what, ": only the root has outputs");
  }
  Exchange exchange(what, *this);
  for (int source = 0; source < static_cast<int>(landing.size()); ++source)
    exchange.receive(source, bytes_of(landing[source]));
  exchange.send(root, bytes_of(input));
  return launch({.type = c10d::OpType::GATHER,
                 .title = what,
                 .inputs = inputs,
                 .outputs = outputs,
                 .calls = exchange.calls(),
                 .epilogue = exchange.epilogue([=] { copy_landed(landing, list); }),
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  constexpr const char* what = "floe:scatter";
  const int root = static_cast<int>(root_rank(what, opts.rootRank));
  const at::Tensor& output = single(what, outputs);
  Tensors parts;
  if (rank_ == root) {
    TORCH_CHECK(inputs.size() == 1, what, ": the root needs one list of inputs, got ", inputs.size());
    check_list(what, inputs.front(), size_, output);
    parts = contiguous(inputs.front());
  } else {
    TORCH_CHECK(inputs.empty(), what, ": only the root has inputs");
  }
  Exchange exchange(what, *this);
  exchange.receive(root, bytes_of(output));
  for (int destination = 0; destination < static_cast<int>(parts.size()); ++destination)
    exchange.send(destination, bytes_of(parts[destination]));
  return launch({.type = c10d::OpType::SCATTER,
                 .title = what,
                 .inputs = parts,
                 .outputs = {outputs},
                 .calls = exchange.calls(),
                 .epilogue = exchange.epilogue(),
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  constexpr const char* what = "floe:all_to_all";
  for (const Tensors* list : {&outputs, &inputs}) {
    TORCH_CHECK(static_cast<int>(list->size()) == size_, what, ": a list of ", list->size(),
                " tensors is given where ", size_, " are needed, one per rank");
    for (const at::Tensor& tensor : *list) {
      check_dense(what, tensor);
      TORCH_CHECK(tensor.scalar_type() == inputs.front().scalar_type(), what,
                  ": the tensors have different types, ", tensor.scalar_type(), " and ",
                  inputs.front().scalar_type());
    }
  }
  TORCH_CHECK(outputs[rank_].numel() == inputs[rank_].numel(), what,
              ": input and output of this rank for itself have ", inputs[rank_].numel(), " and ",
              outputs[rank_].numel(), " elements");
  const Tensors parts = contiguous(inputs), landing = landing_for(outputs);
  Exchange exchange(what, *this);
  for (int peer = 0; peer < size_; ++peer) exchange.receive(peer, bytes_of(landing[peer]));
  for (int peer = 0; peer < size_; ++peer) exchange.send(peer, bytes_of(parts[peer]));
  return launch({.type = c10d::OpType::ALLTOALL,
                 .title = what,
                 .inputs = parts,
                 .outputs = {outputs},
                 .calls = exchange.calls(),
                 .epilogue = exchange.epilogue([landing, outputs] { copy_landed(landing, outputs); }),
                 .timeout = opts.timeout});
}

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>& output_splits,
                                        std::vector<int64_t>& input_splits,
                                        const c10d::AllToAllOptions& opts) {
  constexpr const char* what = "floe:all_to_all";
  for (const at::Tensor* tensor : {&output, &input}) check_tensor(what, *tensor);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), what, ": input and output have different types, ",
              input.scalar_type(), " and ", output.scalar_type());
  const auto parts_of = [&](const at::Tensor& tensor, const std::vector<int64_t>& splits) {
    for (const int64_t split : splits) TORCH_CHECK(split >= 0, what, ": a split size is ", split);
    c10d::checkSplitSizes(splits, tensor, size_);
    std::vector<uint64_t> lengths(size_), offsets(size_);
    c10d::computeLengthsAndOffsets(splits, tensor, &lengths, &offsets);
    std::vector<Bytes> parts;
    const uint64_t element = tensor.element_size();
    for (int peer = 0; peer < size_; ++peer)
      parts.push_back({bytes_of(tensor).data + offsets[peer] * element, lengths[peer] * element});
    return parts;
  };
  const auto to = parts_of(output, output_splits), from = parts_of(input, input_splits);
  TORCH_CHECK(to[rank_].size == from[rank_].size, what, ": input and output of this rank for itself have ",
              from[rank_].size, " and ", to[rank_].size, " bytes");
  Exchange exchange(what, *this);
  for (int peer = 0; peer < size_; ++peer) exchange.receive(peer, to[peer]);
  for (int peer = 0; peer < size_; ++peer) exchange.send(peer, from[peer]);
  return launch({.type = c10d::OpType::ALLTOALL_BASE,
                 .title = what,
                 .inputs = {input},
                 .outputs = {{output}},
                 .calls = exchange.calls(),
                 .epilogue = exchange.epilogue(),
                 .timeout = opts.timeout});
}

}  // namespace floe_torch
