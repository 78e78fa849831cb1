// Backend's messages.
#include <c10/util/Exception.h>

#include "backend.h"
#include "errors.h"
#include "staging.h"

namespace floe_torch {
namespace {

// What a message carries.
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

// Keeps the tensor, which may be a copy that nobody else has.
Operation::Call send_call(const at::Tensor& tensor, uint32_t destination, uint64_t tag) {
  return [tensor, destination, tag](floe_comm_t* comm, floe_request_t** request) {
    const Bytes part = bytes_of(tensor);
    return floe_send(comm, part.data, part.size, FLOE_UINT8, destination, tag, request);
  };
}

Operation::Epilogue received(const char* what, const at::Tensor& landing,
                             const std::vector<at::Tensor>& tensors) {
  return [what, landing, copy = copy_out(landing, tensors.front())](const auto& requests) {
    check_received(what, requests.front(), landing.nbytes());
    if (copy) copy(requests);
  };
}

Operation::Call receive_call(Bytes part, uint32_t source, uint64_t tag) {
  return [=](floe_comm_t* comm, floe_request_t** request) {
    return floe_recv(comm, part.data, part.size, FLOE_UINT8, source, tag, request);
  };
}

}  // namespace

Backend::WorkPtr Backend::send(Tensors& tensors, int destination, int tag) {
  constexpr const char* what = "floe:send";
  const at::Tensor& tensor = single(what, tensors);
  return launch(
      {.type = c10d::OpType::SEND,
       .title = what,
       .inputs = tensors,
       .outputs = {},
       .calls = {send_call(packed(tensor), static_cast<uint32_t>(destination), user_tag(what, tag))}});
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int source, int tag) {
  constexpr const char* what = "floe:recv";
  const at::Tensor landing = landing_for(single_output(what, tensors));
  const Bytes part = bytes_of(landing);
  TORCH_CHECK(source >= 0 && source < size_, what, ": source is ", source, ": it must be a rank below ",
              size_);
  return launch({.type = c10d::OpType::RECV,
                 .title = what,
                 .inputs = tensors,
                 .outputs = {tensors},
                 .calls = {receive_call(part, static_cast<uint32_t>(source), user_tag(what, tag))},
                 .epilogue = received(what, landing, tensors)});
}

Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  constexpr const char* what = "floe:recvAnySource";  // the name that PyTorch's profiler tests know
  const at::Tensor landing = landing_for(single_output(what, tensors));
  const Bytes part = bytes_of(landing);
  return launch({.type = c10d::OpType::RECVANYSOURCE,
                 .title = what,
                 .inputs = tensors,
                 .outputs = {tensors},
                 .calls = {receive_call(part, FLOE_ANY_SOURCE, user_tag(what, tag))},
                 .epilogue = received(what, landing, tensors)});
}

}  // namespace floe_torch
