#include "operations.h"

#include <algorithm>
#include <array>

namespace floe::bench {
namespace {

double one(double) { return 1; }
double share(double n) { return (n - 1) / n; }
double twice_share(double n) { return 2 * (n - 1) / n; }

std::vector<Part> sum_here(const Call& c) { return {{0, c.count, Part::kAllRanks, 0}}; }
std::vector<Part> nothing(const Call&) { return {}; }

std::vector<Part> sum_on_root(const Call& c) {
  if (c.rank == kRoot) return sum_here(c);
  return {};
}

std::vector<Part> from_root(const Call& c) { return {{0, c.count, kRoot, 0}}; }

std::vector<Part> one_of_each(const Call& c) {
  std::vector<Part> parts;
  parts.reserve(c.ranks);
  for (uint32_t rank = 0; rank < c.ranks; ++rank) parts.push_back({rank * c.count, c.count, rank, 0});
  return parts;
}

std::vector<Part> one_of_each_on_root(const Call& c) {
  if (c.rank == kRoot) return one_of_each(c);
  return {};
}

std::vector<Part> my_part_of_sum(const Call& c) { return {{0, c.count, Part::kAllRanks, c.rank * c.count}}; }

std::vector<Part> my_part_of_each(const Call& c) {
  auto parts = one_of_each(c);
  for (auto& part : parts) part.from = c.rank * c.count;
  return parts;
}

std::vector<Part> my_part_of_root(const Call& c) { return {{0, c.count, kRoot, c.rank * c.count}}; }

std::vector<Part> from_previous(const Call& c) { return {{0, c.count, c.previous(), 0}}; }

// kind, name, reduces, rooted, in_place, send, recv, bus_factor, result
constexpr std::array kTable = {
    Operation{Kind::kAllReduce, "all_reduce", true, false, InPlace::kSame, Parts::kOne, Parts::kOne,
              twice_share, sum_here},
    Operation{Kind::kReduce, "reduce", true, true, InPlace::kSame, Parts::kOne, Parts::kOne, one,
              sum_on_root},
    Operation{Kind::kBroadcast, "broadcast", false, true, InPlace::kAlways, Parts::kOne, Parts::kOne, one,
              from_root},
    Operation{Kind::kAllGather, "all_gather", false, false, InPlace::kSendInRecv, Parts::kOne, Parts::kAll,
              share, one_of_each},
    Operation{Kind::kReduceScatter, "reduce_scatter", true, false, InPlace::kRecvInSend, Parts::kAll,
              Parts::kOne, share, my_part_of_sum},
    Operation{Kind::kAllToAll, "all_to_all", false, false, InPlace::kSame, Parts::kAll, Parts::kAll, share,
              my_part_of_each},
    Operation{Kind::kGather, "gather", false, true, InPlace::kSendInRecv, Parts::kOne, Parts::kAllOnRoot,
              share, one_of_each_on_root},
    Operation{Kind::kScatter, "scatter", false, true, InPlace::kRecvInSend, Parts::kAllOnRoot, Parts::kOne,
              share, my_part_of_root},
    // Every rank sends to the next one and receives from the one before it.
    Operation{Kind::kSendRecv, "sendrecv", false, false, InPlace::kNever, Parts::kOne, Parts::kOne, one,
              from_previous},
    // The same, one after the other: rank 0 sends first, and others once they have received.
    Operation{Kind::kPingPong, "pingpong", false, false, InPlace::kNever, Parts::kOne, Parts::kOne, one,
              from_previous},
    Operation{Kind::kBarrier, "barrier", false, false, InPlace::kNever, Parts::kOne, Parts::kOne, one,
              nothing},
};

uint32_t parts_of(Parts parts, uint32_t rank, uint32_t ranks) {
  if (parts == Parts::kOne) return 1;
  return parts == Parts::kAll || rank == kRoot ? ranks : 0;
}

uint32_t size_in_parts(const Operation& op, uint32_t ranks) {
  return op.send == Parts::kOne && op.recv == Parts::kOne ? 1 : ranks;
}

}  // namespace

std::span<const Operation> operation_table() { return kTable; }

const Operation* find_operation(std::string_view name) {
  const auto* row = std::find_if(kTable.begin(), kTable.end(), [&](const auto& o) { return o.name == name; });
  return row == kTable.end() ? nullptr : row;
}

uint32_t Operation::send_parts(uint32_t rank, uint32_t ranks) const { return parts_of(send, rank, ranks); }
uint32_t Operation::recv_parts(uint32_t rank, uint32_t ranks) const { return parts_of(recv, rank, ranks); }

uint64_t part_count(const Operation& op, uint64_t bytes, size_t element, uint32_t ranks) {
  if (!op.moves()) return 0;
  return std::max<uint64_t>(1, bytes / element / size_in_parts(op, ranks));
}

uint64_t total_bytes(const Operation& op, uint64_t count, size_t element, uint32_t ranks) {
  return count * element * size_in_parts(op, ranks);
}

}  // namespace floe::bench
