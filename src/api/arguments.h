// Checks of arguments that several operations share, and how their entry points end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "api/api.h"

namespace floe::api {

// What any buffer has at most.
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

// What is wrong with arguments that the checks below have refused: out of the way of those that pass, which
// are a good part of what a small operation costs.
Status bad_count(uint64_t count, floe_type_t type);
Status bad_buffer(const void* buffer, uint64_t count, std::string_view name);
Status bad_root(uint32_t root, const Communicator& comm);
Status bad_peer(uint32_t peer, const Communicator& comm, std::string_view name);
Status bad_overlap();
Status no_in_place(std::string_view name);

// `type` is one, and `blocks` blocks of `count` elements have at most kMaxBytes.
inline Status check_count(uint64_t count, floe_type_t type, uint64_t blocks = 1) {
  const uint64_t element = type_size(type);
  uint64_t bytes = 0;
  if (element == 0 || __builtin_mul_overflow(count, element * blocks, &bytes) || bytes > kMaxBytes)
    return bad_count(count, type);
  return {};
}

// Not NULL unless count is 0, and not FLOE_IN_PLACE.
inline Status check_buffer(const void* buffer, uint64_t count, std::string_view name) {
  if (count != 0 && (!buffer || buffer == FLOE_IN_PLACE)) return bad_buffer(buffer, count, name);
  return {};
}

inline Status check_root(uint32_t root, const Communicator& comm) {
  if (root >= comm.size()) return bad_root(root, comm);
  return {};
}

// `peer` is another rank.
inline Status check_peer(uint32_t peer, const Communicator& comm, std::string_view name) {
  if (peer >= comm.size() || peer == comm.rank()) return bad_peer(peer, comm, name);
  return {};
}

inline bool overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && first + a_bytes > second && second + b_bytes > first;
}

// `send` and `recv` do not overlap.
inline Status check_overlap(const void* send, uint64_t sent, const void* recv, uint64_t received) {
  if (overlap(send, sent, recv, received)) return bad_overlap();
  return {};
}

// Whether a buffer, or two that the caller knows to have so many bytes, need no word of complaint.
inline bool is_fine(const void* buffer) { return buffer && buffer != FLOE_IN_PLACE; }
inline bool are_fine(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  return is_fine(a) && is_fine(b) && !overlap(a, a_bytes, b, b_bytes);
}

// A place in a buffer that need not have been checked.
inline std::byte* place_in(const void* buffer, uint64_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(buffer) + offset);
}

Status conclude_late(const Communicator& comm, const Operation& late);
// A blocking call with buffers that are fine, if it is like the last two of its kind: see
// Communicator::repeat. Nothing if it isn't.
inline std::optional<Status> repeat(Communicator& comm, const Communicator::Shape& shape, const void* send,
                                    void* recv) {
  std::shared_ptr<Operation> late;
  if (!comm.repeat(shape, send, recv, &late)) return std::nullopt;
  if (late) [[unlikely]]
    return conclude_late(comm, *late);
  return Status();
}

// Hands the operation to the caller, or waits for it.
Status conclude_started(const Communicator& comm, Communicator::Started& started, floe_request_t** req);
inline Status conclude(const Communicator& comm, Communicator::Started started, floe_request_t** req) {
  if (started.ok() && !*started) return {};  // complete already
  return conclude_started(comm, started, req);
}

}  // namespace floe::api
