#include "operations.h"

#include <algorithm>
#include <array>

namespace floe::bench {
namespace {

constexpr uint32_t kRoot = 0;
constexpr uint64_t kTag = 1;

double one(double) { return 1; }
double share(double n) { return (n - 1) / n; }
double twice_share(double n) { return 2 * (n - 1) / n; }

uint32_t next(const Call& c) { return (c.rank + 1) % c.ranks; }
uint32_t previous(const Call& c) { return (c.rank + c.ranks - 1) % c.ranks; }

std::vector<Part> sum_here(const Call& c) { return {{0, c.count, Part::kAllRanks, 0}}; }

floe_status_t run_all_reduce(const Call& c) {
  return floe_all_reduce(c.comm, c.send, c.recv, c.count, c.type, FLOE_SUM, nullptr);
}

floe_status_t run_reduce(const Call& c) {
  return floe_reduce(c.comm, c.send, c.recv, c.count, c.type, FLOE_SUM, kRoot, nullptr);
}
std::vector<Part> result_reduce(const Call& c) {
  if (c.rank == kRoot) return sum_here(c);
  return {};
}

floe_status_t run_broadcast(const Call& c) {
  return floe_broadcast(c.comm, c.recv, c.count, c.type, kRoot, nullptr);
}
std::vector<Part> result_broadcast(const Call& c) { return {{0, c.count, kRoot, 0}}; }

floe_status_t run_all_gather(const Call& c) {
  return floe_all_gather(c.comm, c.send, c.recv, c.count, c.type, nullptr);
}
std::vector<Part> result_all_gather(const Call& c) {
  std::vector<Part> parts;
  for (uint32_t rank = 0; rank < c.ranks; ++rank) parts.push_back({rank * c.count, c.count, rank, 0});
  return parts;
}

floe_status_t run_reduce_scatter(const Call& c) {
  return floe_reduce_scatter(c.comm, c.send, c.recv, c.count, c.type, FLOE_SUM, nullptr);
}
std::vector<Part> result_reduce_scatter(const Call& c) {
  return {{0, c.count, Part::kAllRanks, c.rank * c.count}};
}

// Every rank sends to the next one and receives from the one before it.
floe_status_t run_sendrecv(const Call& c) {
  floe_request_t* received = nullptr;
  floe_status_t status = floe_recv(c.comm, c.recv, c.count, c.type, previous(c), kTag, &received);
  if (status != FLOE_OK) return status;
  status = floe_send(c.comm, c.send, c.count, c.type, next(c), kTag, nullptr);
  const floe_status_t waited = floe_wait(received, FLOE_NO_TIMEOUT);
  floe_request_free(received);
  return status != FLOE_OK ? status : waited;
}
std::vector<Part> result_sendrecv(const Call& c) { return {{0, c.count, previous(c), 0}}; }

floe_status_t run_barrier(const Call& c) { return floe_barrier(c.comm, nullptr); }
std::vector<Part> result_barrier(const Call&) { return {}; }

// name, reduces, moves, in_place, send_all, recv_all, bus_factor, run, result
constexpr std::array kTable = {
    Operation{"all_reduce", true, true, InPlace::kSame, false, false, twice_share, run_all_reduce, sum_here},
    Operation{"reduce", true, true, InPlace::kSame, false, false, one, run_reduce, result_reduce},
    Operation{"broadcast", false, true, InPlace::kAlways, false, false, one, run_broadcast, result_broadcast},
    Operation{"all_gather", false, true, InPlace::kSendInRecv, false, true, share, run_all_gather,
              result_all_gather},
    Operation{"reduce_scatter", true, true, InPlace::kRecvInSend, true, false, share, run_reduce_scatter,
              result_reduce_scatter},
    Operation{"sendrecv", false, true, InPlace::kNever, false, false, one, run_sendrecv, result_sendrecv},
    Operation{"barrier", false, false, InPlace::kNever, false, false, one, run_barrier, result_barrier},
};

}  // namespace

std::span<const Operation> operation_table() { return kTable; }

const Operation* find_operation(std::string_view name) {
  const auto* row = std::find_if(kTable.begin(), kTable.end(), [&](const auto& o) { return o.name == name; });
  return row == kTable.end() ? nullptr : row;
}

uint64_t part_count(const Operation& op, uint64_t bytes, size_t element, uint32_t ranks) {
  if (!op.moves) return 0;
  const uint64_t parts = op.send_all || op.recv_all ? ranks : 1;
  return std::max<uint64_t>(1, bytes / element / parts);
}

uint64_t total_bytes(const Operation& op, uint64_t count, size_t element, uint32_t ranks) {
  return count * element * (op.send_all || op.recv_all ? ranks : 1);
}

}  // namespace floe::bench
