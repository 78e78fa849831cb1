// Collectives, point to point and the local reduction: argument checks.
#include <span>
#include <utility>
#include <vector>

#include "api/arguments.h"
#include "reduce/reduce.h"

using namespace floe;
using namespace floe::api;

namespace {

// What FLOE_ANY_SOURCE stands for.
std::vector<uint32_t> others(const Communicator& comm) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < comm.size(); ++rank)
    if (rank != comm.rank()) ranks.push_back(rank);
  return ranks;
}

Status no_other_rank() {
  return {FLOE_ERR_ARGUMENT, "source is FLOE_ANY_SOURCE: this communicator has no other rank"};
}

Status receive(Communicator& comm, void* buffer, uint64_t count, floe_type_t type,
               std::span<const uint32_t> sources, uint64_t tag, floe_request_t** req) {
  FLOE_TRY(check_count(count, type));
  FLOE_TRY(check_buffer(buffer, count, "buffer"));
  for (const uint32_t source : sources) FLOE_TRY(check_peer(source, comm, "source"));
  return conclude(comm, comm.receive(buffer, count * type_size(type), sources, tag, !req), req);
}

// Whether nothing is wrong with the buffers of a collective that has the same count of both.
bool one_or_apart(const void* send, const void* recv, uint64_t count, floe_type_t type) {
  const uint64_t bytes = count * type_size(type);
  return send == recv ? is_fine(recv) : are_fine(send, bytes, recv, bytes);
}

}  // namespace

extern "C" {

floe_status_t floe_all_reduce(floe_comm_t* comm, const void* send, void* recv, uint64_t count,
                              floe_type_t type, floe_op_t op, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    if (send == FLOE_IN_PLACE) send = recv;
    if (!req && one_or_apart(send, recv, count, type)) {
      std::shared_ptr<Operation> late;
      if (c.repeat_all_reduce(send, recv, count, type, op, &late))
        return late ? conclude(c, std::move(late), nullptr) : Status();
    }
    const auto what = c.ops().find(op, type);
    if (!what.ok()) return what.status();
    FLOE_TRY(check_count(count, type));
    FLOE_TRY(check_buffer(send, count, "send"));
    FLOE_TRY(check_buffer(recv, count, "recv"));
    const uint64_t bytes = count * type_size(type);
    if (send != recv) FLOE_TRY(check_overlap(send, bytes, recv, bytes));
    return conclude(c, c.all_reduce(send, recv, count, type, *what, !req), req);
  });
}

floe_status_t floe_reduce(floe_comm_t* comm, const void* send, void* recv, uint64_t count, floe_type_t type,
                          floe_op_t op, uint32_t root, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const void* const source = send == FLOE_IN_PLACE && c.rank() == root ? recv : send;
    if (!req && (c.rank() == root ? one_or_apart(source, recv, count, type) : is_fine(send)))
      if (auto again = repeat(c, {Kind::kReduce, count, type, op, root}, source, recv))
        return *std::move(again);
    const auto what = c.ops().find(op, type);
    if (!what.ok()) return what.status();
    FLOE_TRY(check_count(count, type));
    FLOE_TRY(check_root(root, c));
    const bool is_root = c.rank() == root;
    if (send == FLOE_IN_PLACE && !is_root)
      return {FLOE_ERR_ARGUMENT, "send is FLOE_IN_PLACE, which only the root may say"};
    if (send == FLOE_IN_PLACE) send = recv;
    FLOE_TRY(check_buffer(send, count, "send"));
    const uint64_t bytes = count * type_size(type);
    if (is_root) FLOE_TRY(check_buffer(recv, count, "recv"));
    if (is_root && send != recv) FLOE_TRY(check_overlap(send, bytes, recv, bytes));
    return conclude(c, c.reduce(send, recv, count, type, *what, root, !req), req);
  });
}

floe_status_t floe_broadcast(floe_comm_t* comm, void* buffer, uint64_t count, floe_type_t type, uint32_t root,
                             floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    if (!req && is_fine(buffer))
      if (auto again = repeat(c, {Kind::kBroadcast, count, type, 0, root}, buffer, buffer))
        return *std::move(again);
    FLOE_TRY(check_count(count, type));
    FLOE_TRY(check_root(root, c));
    FLOE_TRY(check_buffer(buffer, count, "buffer"));
    return conclude(c, c.broadcast(buffer, count, type, root, !req), req);
  });
}

floe_status_t floe_all_gather(floe_comm_t* comm, const void* send, void* recv, uint64_t count,
                              floe_type_t type, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const uint64_t bytes = count * type_size(type);
    const void* const own = place_in(recv, c.rank() * bytes);
    if (send == FLOE_IN_PLACE) send = own;
    if (!req && (send == own ? is_fine(recv) : are_fine(send, bytes, recv, c.size() * bytes)))
      if (auto again = repeat(c, {Kind::kAllGather, count, type}, send, recv)) return *std::move(again);
    FLOE_TRY(check_count(count, type, c.size()));
    FLOE_TRY(check_buffer(recv, count, "recv"));
    FLOE_TRY(check_buffer(send, count, "send"));
    if (send != own) FLOE_TRY(check_overlap(send, bytes, recv, c.size() * bytes));
    return conclude(c, c.all_gather(send, recv, count, type, !req), req);
  });
}

floe_status_t floe_reduce_scatter(floe_comm_t* comm, const void* send, void* recv, uint64_t count,
                                  floe_type_t type, floe_op_t op, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const uint64_t bytes = count * type_size(type);
    const bool in_place = recv == place_in(send, c.rank() * bytes);
    if (!req && (in_place ? is_fine(send) && is_fine(recv) : are_fine(send, c.size() * bytes, recv, bytes)))
      if (auto again = repeat(c, {Kind::kReduceScatter, count, type, op}, send, recv))
        return *std::move(again);
    const auto what = c.ops().find(op, type);
    if (!what.ok()) return what.status();
    FLOE_TRY(check_count(count, type, c.size()));
    if (send == FLOE_IN_PLACE)
      return {FLOE_ERR_ARGUMENT, "reduce_scatter in place is recv = send + rank * count, not FLOE_IN_PLACE"};
    FLOE_TRY(check_buffer(send, count, "send"));
    FLOE_TRY(check_buffer(recv, count, "recv"));
    if (!in_place) FLOE_TRY(check_overlap(send, c.size() * bytes, recv, bytes));
    return conclude(c, c.reduce_scatter(send, recv, count, type, *what, !req), req);
  });
}

floe_status_t floe_barrier(floe_comm_t* comm, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    if (!req)
      if (auto again = repeat(c, {Kind::kBarrier}, nullptr, nullptr)) return *std::move(again);
    return conclude(c, c.barrier(!req), req);
  });
}

floe_status_t floe_send(floe_comm_t* comm, const void* buffer, uint64_t count, floe_type_t type,
                        uint32_t dest, uint64_t tag, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    FLOE_TRY(check_count(count, type));
    FLOE_TRY(check_buffer(buffer, count, "buffer"));
    FLOE_TRY(check_peer(dest, c, "dest"));
    return conclude(c, c.send(buffer, count * type_size(type), dest, tag, !req), req);
  });
}

floe_status_t floe_recv(floe_comm_t* comm, void* buffer, uint64_t count, floe_type_t type, uint32_t source,
                        uint64_t tag, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    if (source != FLOE_ANY_SOURCE) return receive(c, buffer, count, type, {&source, 1}, tag, req);
    if (c.size() == 1) return no_other_rank();
    return receive(c, buffer, count, type, others(c), tag, req);
  });
}

floe_status_t floe_recv_any(floe_comm_t* comm, void* buffer, uint64_t count, floe_type_t type,
                            const uint32_t* sources, uint64_t source_count, uint64_t tag,
                            floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    if (!sources) return {FLOE_ERR_ARGUMENT, "sources is NULL"};
    if (source_count == 0 || source_count > c.size())
      return error(FLOE_ERR_ARGUMENT, "source_count is {}: use 1 to size, {}", source_count, c.size());
    return receive(c, buffer, count, type, {sources, source_count}, tag, req);
  });
}

floe_status_t floe_sendrecv(floe_comm_t* comm, const void* send, uint64_t send_count, uint32_t dest,
                            uint64_t send_tag, void* recv, uint64_t recv_count, uint32_t source,
                            uint64_t recv_tag, floe_type_t type) {
  return operation(comm, [&](Communicator& c) -> Status {
    FLOE_TRY(check_count(send_count, type));
    FLOE_TRY(check_count(recv_count, type));
    FLOE_TRY(check_buffer(send, send_count, "send"));
    FLOE_TRY(check_buffer(recv, recv_count, "recv"));
    FLOE_TRY(check_peer(dest, c, "dest"));
    const uint64_t sent = send_count * type_size(type), received = recv_count * type_size(type);
    FLOE_TRY(check_overlap(send, sent, recv, received));
    if (source == FLOE_ANY_SOURCE && c.size() == 1) return no_other_rank();
    if (source != FLOE_ANY_SOURCE) FLOE_TRY(check_peer(source, c, "source"));
    const std::vector<uint32_t> any = source == FLOE_ANY_SOURCE ? others(c) : std::vector<uint32_t>();
    std::shared_ptr<Operation> sending, receiving;
    const Status started = c.send_receive(send, sent, dest, send_tag, recv, received,
                                          any.empty() ? std::span<const uint32_t>(&source, 1) : any, recv_tag,
                                          &sending, &receiving);
    // Both, whatever comes of the first: until then its buffer is in use.
    Status sending_ended = sending ? conclude_late(c, *sending) : Status();
    Status receiving_ended = receiving ? conclude_late(c, *receiving) : Status();
    if (!sending_ended.ok()) return sending_ended;
    FLOE_TRY(started);
    return receiving_ended;
  });
}

floe_status_t floe_local_reduce(void* dst, const void* const* sources, uint32_t source_count, uint64_t count,
                                floe_type_t type, floe_op_t op) {
  return entry([&]() -> Status {
    if (static_cast<int>(op) >= kPremulSum)
      return error(FLOE_ERR_ARGUMENT,
                   "op is {}: floe_local_reduce takes 0 (sum) to {} ({}), and no handle of a communicator",
                   static_cast<int>(op), kPremulSum - 1, op_name(kPremulSum - 1));
    FLOE_TRY(check_reduction(type, op));
    FLOE_TRY(check_count(count, type));
    if (!sources || source_count == 0)
      return error(FLOE_ERR_ARGUMENT, "{}: at least one source is needed",
                   sources ? "source_count is 0" : "sources is NULL");
    FLOE_TRY(check_buffer(dst, count, "dst"));
    const uint64_t bytes = count * type_size(type);
    for (uint32_t i = 0; i < source_count; ++i) {
      if (!sources[i] && count != 0)
        return error(FLOE_ERR_ARGUMENT, "sources[{}] is NULL and count is {}", i, count);
      if (sources[i] != dst && overlap(sources[i], bytes, dst, bytes))
        return error(FLOE_ERR_ARGUMENT, "dst and sources[{}] overlap, and are not the same", i);
    }
    if (count == 0) return {};
    void* const destinations[] = {dst};
    reduce(destinations, {sources, source_count}, count, type, op, source_count);
    return {};
  });
}

}  // extern "C"
