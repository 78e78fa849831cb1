#include "floe_contender.h"

namespace floe::bench {
namespace {

constexpr uint64_t kTag = 1;

floe_status_t ping_pong(floe_comm_t* comm, const Call& c) {
  const auto send = [&] { return floe_send(comm, c.send, c.count, c.type, c.next(), kTag, nullptr); };
  const auto receive = [&] { return floe_recv(comm, c.recv, c.count, c.type, c.previous(), kTag, nullptr); };
  const floe_status_t first = c.rank == kRoot ? send() : receive();
  if (first != FLOE_OK) return first;
  return c.rank == kRoot ? receive() : send();
}

floe_status_t run_call(Kind kind, floe_comm_t* comm, const Call& c) {
  switch (kind) {
    case Kind::kAllReduce: return floe_all_reduce(comm, c.send, c.recv, c.count, c.type, FLOE_SUM, nullptr);
    case Kind::kReduce: return floe_reduce(comm, c.send, c.recv, c.count, c.type, FLOE_SUM, kRoot, nullptr);
    case Kind::kBroadcast: return floe_broadcast(comm, c.recv, c.count, c.type, kRoot, nullptr);
    case Kind::kAllGather: return floe_all_gather(comm, c.send, c.recv, c.count, c.type, nullptr);
    case Kind::kReduceScatter:
      return floe_reduce_scatter(comm, c.send, c.recv, c.count, c.type, FLOE_SUM, nullptr);
    case Kind::kAllToAll: return floe_all_to_all(comm, c.send, c.recv, c.count, c.type, nullptr);
    case Kind::kGather: return floe_gather(comm, c.send, c.recv, c.count, c.type, kRoot, nullptr);
    case Kind::kScatter: return floe_scatter(comm, c.send, c.recv, c.count, c.type, kRoot, nullptr);
    case Kind::kSendRecv:
      return floe_sendrecv(comm, c.send, c.count, c.next(), kTag, c.recv, c.count, c.previous(), kTag,
                           c.type);
    case Kind::kPingPong: return ping_pong(comm, c);
    case Kind::kBarrier: return floe_barrier(comm, nullptr);
  }
  return FLOE_ERR_INTERNAL;
}

Buffers::Heap heap_of(floe_context_t* context) {
  const auto allocate = [context](size_t bytes) -> void* {
    void* memory = nullptr;
    return floe_mem_alloc(context, bytes, &memory) == FLOE_OK ? memory : nullptr;
  };
  return {allocate, [context](void* memory) { floe_mem_free(context, memory); }};
}

}  // namespace

FloeContender::FloeContender(const Session& session, Memory memory)
    : session_(session), memory_(memory), buffers_(heap_of(session.context())) {}

Result<Timings> FloeContender::run(const Case& asked, uint64_t iterations) {
  Case what = asked;
  what.manner.heap = asked.manner.heap && has_heap();
  const auto call = buffers_.prepare(what, session_.rank(), session_.ranks());
  if (!call) return error(FLOE_ERR_SYSTEM, "no memory for the buffers: give smaller --sizes");
  floe_status_t status = FLOE_OK;
  const auto once = [&] {
    status = run_call(what.op->kind, session_.comm(), *call);
    return status == FLOE_OK;
  };
  const auto meet = [&] {
    status = floe_barrier(session_.comm(), nullptr);
    return status == FLOE_OK;
  };
  Timings timings;
  if (!measure(what, *call, session_.ticks(), iterations, once, meet, timings))
    return error(status, "{}: {}", floe_status_string(status), floe_last_error());
  return timings;
}

}  // namespace floe::bench
