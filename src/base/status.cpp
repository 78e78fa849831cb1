#include "base/status.h"

#include <atomic>
#include <cstdint>
#include <system_error>

namespace floe {

struct Status::Error {
  floe_status_t code;
  std::string message;
  std::atomic<uint32_t> holders{1};
};

Status::Status(floe_status_t code, std::string message)
    : error_(code == FLOE_OK ? nullptr : new Error{code, std::move(message)}) {}

void Status::hold() noexcept { error_->holders.fetch_add(1, std::memory_order_relaxed); }

void Status::release() noexcept {
  // Acquire and release: pairs with itself; the last holder deletes after all others' last use.
  if (error_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete error_;
}

floe_status_t Status::code() const { return error_ ? error_->code : FLOE_OK; }

const std::string& Status::message() const {
  static const std::string* const none = new std::string;  // leaked: used until the last thread ends
  return error_ ? error_->message : *none;
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
