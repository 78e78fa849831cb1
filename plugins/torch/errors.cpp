#include "errors.h"

#include <c10/util/Exception.h>

namespace floe_torch {

std::exception_ptr make_error(floe_status_t status, const std::string& what, const std::string& message) {
  const c10::SourceLocation here{__func__, __FILE__, __LINE__};
  const std::string name = floe_status_string(status);
  switch (status) {
    case FLOE_ERR_ARGUMENT:
    case FLOE_ERR_UNSUPPORTED:
    case FLOE_ERR_ENVIRONMENT:
      return std::make_exception_ptr(c10::Error(here, what + ": " + message + " (" + name + ")"));
    case FLOE_ERR_TIMEOUT:
      // " Timed out " is what callers of any c10d backend look for, PyTorch's own tests among them.
      return std::make_exception_ptr(
          c10::DistBackendError(here, what + ": Timed out : " + message + " (" + name + ")"));
    default:
      return std::make_exception_ptr(c10::DistBackendError(here, what + ": " + message + " (" + name + ")"));
  }
}

void check(floe_status_t status, const std::string& what) {
  if (status != FLOE_OK) std::rethrow_exception(make_error(status, what, floe_last_error()));
}

}  // namespace floe_torch
