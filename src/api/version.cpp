// floe_version, floe_status_string, floe_last_error.
#include "api/api.h"

namespace floe::api {
namespace {

thread_local std::string last_error;

}  // namespace

floe_status_t report_error(const Status& status) {
  try {
    last_error = status.message();
  } catch (const std::bad_alloc&) {  // the code is worth more
    last_error.clear();
  }
  return status.code();
}

Status bad_handle(const void* handle, std::string_view name) {
  if (!handle) return error(FLOE_ERR_ARGUMENT, "{} is NULL", name);
  return error(FLOE_ERR_FORKED,
               "{} belongs to the parent process: create a context of its own after fork, or exec", name);
}

Status check_struct(uint32_t struct_size, size_t oldest, std::string_view name) {
  if (struct_size >= oldest) return {};
  return error(FLOE_ERR_ARGUMENT,
               "{}.struct_size is {}, at least {} is needed: initialise it with its _INIT macro", name,
               struct_size, oldest);
}

}  // namespace floe::api

extern "C" {

uint32_t floe_version(void) {
  return FLOE_VERSION_MAJOR * 10000 + FLOE_VERSION_MINOR * 100 + FLOE_VERSION_PATCH;
}

const char* floe_status_string(floe_status_t status) {
  switch (status) {
    case FLOE_OK: return "FLOE_OK";
    case FLOE_IN_PROGRESS: return "FLOE_IN_PROGRESS";
    case FLOE_ERR_ARGUMENT: return "FLOE_ERR_ARGUMENT";
    case FLOE_ERR_UNSUPPORTED: return "FLOE_ERR_UNSUPPORTED";
    case FLOE_ERR_ENVIRONMENT: return "FLOE_ERR_ENVIRONMENT";
    case FLOE_ERR_TIMEOUT: return "FLOE_ERR_TIMEOUT";
    case FLOE_ERR_PEER: return "FLOE_ERR_PEER";
    case FLOE_ERR_MISMATCH: return "FLOE_ERR_MISMATCH";
    case FLOE_ERR_ABORTED: return "FLOE_ERR_ABORTED";
    case FLOE_ERR_TRUNCATED: return "FLOE_ERR_TRUNCATED";
    case FLOE_ERR_FORKED: return "FLOE_ERR_FORKED";
    case FLOE_ERR_SYSTEM: return "FLOE_ERR_SYSTEM";
    case FLOE_ERR_TRANSPORT: return "FLOE_ERR_TRANSPORT";
    case FLOE_ERR_STORE: return "FLOE_ERR_STORE";
    case FLOE_ERR_INTERNAL: return "FLOE_ERR_INTERNAL";
  }
  return "unknown status";
}

const char* floe_last_error(void) { return floe::api::last_error.c_str(); }

}  // extern "C"
