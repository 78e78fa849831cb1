// The operations that floe-bench measures, whichever library runs them: one table row each.
#pragma once

#include <floe/floe.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace floe::bench {

constexpr uint32_t kRoot = 0;

// One call's arguments. `count` is what the C API takes: elements of one rank's part.
struct Call {
  void* send = nullptr;
  void* recv = nullptr;
  uint64_t count = 0;
  floe_type_t type = FLOE_FLOAT32;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  bool in_place = false;

  uint32_t next() const { return (rank + 1) % ranks; }
  uint32_t previous() const { return (rank + ranks - 1) % ranks; }
};

// What a range of the receive buffer must hold: elements of one rank's input, or their sum over all ranks.
struct Part {
  static constexpr uint32_t kAllRanks = UINT32_MAX;
  uint64_t at = 0;  // in the receive buffer, elements
  uint64_t count = 0;
  uint32_t source = 0;  // rank, or kAllRanks
  uint64_t from = 0;    // in the source's send buffer
};

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSendRecv,
  kPingPong,
  kBarrier
};

// Where the send buffer is when the operation works in place.
enum class InPlace { kNever, kAlways, kSame, kSendInRecv, kRecvInSend };

// Which ranks' buffer has a part for every rank.
enum class Parts { kOne, kAll, kAllOnRoot };

struct Operation {
  Kind kind;
  std::string_view name;
  bool reduces;  // the op column shows "sum"
  bool rooted;   // the root column shows kRoot
  InPlace in_place;
  Parts send, recv;
  double (*bus_factor)(double ranks);  // busbw / algbw, as nccl-tests defines it
  std::vector<Part> (*result)(const Call& call);

  bool moves() const { return kind != Kind::kBarrier; }
  bool has_form(bool place) const {
    return in_place == InPlace::kNever ? !place : in_place != InPlace::kAlways || place;
  }
  // Parts in this rank's buffers; 0: the rank has none.
  uint32_t send_parts(uint32_t rank, uint32_t ranks) const;
  uint32_t recv_parts(uint32_t rank, uint32_t ranks) const;
  // False: what is in this rank's send buffer reaches nobody.
  bool sends(uint32_t rank) const {
    return (kind != Kind::kBroadcast && kind != Kind::kScatter) || rank == kRoot;
  }
};

std::span<const Operation> operation_table();
const Operation* find_operation(std::string_view name);

// Elements of one rank's part so that the whole operation has about `bytes` bytes, and at least one element
// a part; and the bytes that it has.
uint64_t part_count(const Operation& op, uint64_t bytes, size_t element, uint32_t ranks);
uint64_t total_bytes(const Operation& op, uint64_t count, size_t element, uint32_t ranks);

}  // namespace floe::bench
