// Checks of arguments that several operations share, and how their entry points end.
#pragma once

#include <string_view>

#include "api/api.h"

namespace floe::api {

// What any buffer has at most.
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

// `type` is one, and `blocks` blocks of `count` elements have at most kMaxBytes.
Status check_count(uint64_t count, floe_type_t type, uint64_t blocks = 1);
// Not NULL unless count is 0, and not FLOE_IN_PLACE.
Status check_buffer(const void* buffer, uint64_t count, std::string_view name);
Status no_in_place(std::string_view name);
Status check_root(uint32_t root, const Communicator& comm);
// `peer` is another rank.
Status check_peer(uint32_t peer, const Communicator& comm, std::string_view name);
bool overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes);
// `send` and `recv` do not overlap.
Status check_overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes);

// Hands the operation to the caller, or waits for it.
Status conclude(const Communicator& comm, Communicator::Started started, floe_request_t** req);

}  // namespace floe::api
