#include "base/status.h"

#include <system_error>

namespace floe {

const std::string& Status::none() {
  static const std::string* const text = new std::string;  // leaked: used until the last thread ends
  return *text;
}

namespace {
const Status* const made_at_start = new Status(FLOE_ERR_SYSTEM, "out of memory");
}
const Status& out_of_memory() { return *made_at_start; }

Status system_error(std::string_view what, int errno_value) {
  return error(FLOE_ERR_SYSTEM, "{}: {} (errno {})", what, std::generic_category().message(errno_value),
               errno_value);
}

}  // namespace floe
