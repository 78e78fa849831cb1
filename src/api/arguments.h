// Checks of arguments that several operations share, and how their entry points end.
#pragma once

#include <string_view>

#include "api/api.h"

namespace floe::api {

// What any buffer has at most.
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

// `type` is one, and `blocks` blocks of `count` elements have at most kMaxBytes.
Status check_count(uint64_t count, floe_type_t type, uint64_t blocks = 1);
Status check_buffer(const void* buffer, uint64_t count, std::string_view name);
Status check_root(uint32_t root, const Communicator& comm);
// `a` and `b` do not overlap.
Status check_overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes);

// Hands the operation to the caller, or waits for it.
Status conclude(const Communicator& comm, Communicator::Started started, floe_request_t** req);

}  // namespace floe::api
