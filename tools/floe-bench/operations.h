// The operations that floe-bench measures: one table row each.
#pragma once

#include <floe/floe.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace floe::bench {

// One call's arguments. `count` is what the C API takes: elements of one rank's part.
struct Call {
  floe_comm_t* comm = nullptr;
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t count = 0;
  floe_type_t type = FLOE_FLOAT32;
  uint32_t rank = 0;
  uint32_t ranks = 1;
};

// What a range of the receive buffer must hold: elements of one rank's input, or their sum over all ranks.
struct Part {
  static constexpr uint32_t kAllRanks = UINT32_MAX;
  uint64_t at = 0;  // in the receive buffer, elements
  uint64_t count = 0;
  uint32_t source = 0;  // rank, or kAllRanks
  uint64_t from = 0;    // in the source's send buffer
};

// Where the send buffer is when the operation works in place.
enum class InPlace { kNever, kAlways, kSame, kSendInRecv, kRecvInSend };

struct Operation {
  std::string_view name;
  bool reduces;  // the op column shows "sum"
  bool moves;    // false: a barrier, which has no data
  InPlace in_place;
  bool send_all;  // the send buffer has a part for every rank, and that is the operation's size
  bool recv_all;
  double (*bus_factor)(double ranks);  // busbw / algbw, as nccl-tests defines it
  floe_status_t (*run)(const Call& call);
  std::vector<Part> (*result)(const Call& call);
};

std::span<const Operation> operation_table();
const Operation* find_operation(std::string_view name);

// Elements of one rank's part so that the whole operation has about `bytes` bytes, and at least one element
// a part; and the bytes that it has.
uint64_t part_count(const Operation& op, uint64_t bytes, size_t element, uint32_t ranks);
uint64_t total_bytes(const Operation& op, uint64_t count, size_t element, uint32_t ranks);

}  // namespace floe::bench
