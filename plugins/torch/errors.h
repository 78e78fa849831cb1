// floe's errors as PyTorch's: a RuntimeError in Python, torch.distributed.DistBackendError when the
// communicator has failed.
#pragma once

#include <floe/floe.h>

#include <exception>
#include <string>

namespace floe_torch {

// `message` is floe_last_error()'s text, `what` what was being done, such as "floe:all_reduce".
std::exception_ptr make_error(floe_status_t status, const std::string& what, const std::string& message);

// Throws unless `status` is FLOE_OK, with this thread's floe_last_error().
void check(floe_status_t status, const std::string& what);

}  // namespace floe_torch
