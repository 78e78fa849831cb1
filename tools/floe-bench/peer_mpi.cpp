// An MPI library beside floe-bench, started by its mpiexec. tools/dev peers compiles it against each MPI.
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "peer_program.h"

namespace floe::bench {
namespace {

constexpr int kTag = 1;

// MPI_DATATYPE_NULL: this MPI cannot sum it.
MPI_Datatype summed_type(floe_type_t type) {
  switch (type) {
    case FLOE_FLOAT32: return MPI_FLOAT;
    case FLOE_FLOAT64: return MPI_DOUBLE;
#ifdef MPIX_C_FLOAT16
    case FLOE_FLOAT16: return MPIX_C_FLOAT16;
#endif
#ifdef MPIX_C_BF16
    case FLOE_BFLOAT16: return MPIX_C_BF16;
#endif
    case FLOE_INT8: return MPI_INT8_T;
    case FLOE_INT16: return MPI_INT16_T;
    case FLOE_INT32: return MPI_INT32_T;
    case FLOE_INT64: return MPI_INT64_T;
    case FLOE_UINT8: return MPI_UINT8_T;
    case FLOE_UINT16: return MPI_UINT16_T;
    case FLOE_UINT32: return MPI_UINT32_T;
    case FLOE_UINT64: return MPI_UINT64_T;
    case FLOE_COMPLEX64: return MPI_C_FLOAT_COMPLEX;
    case FLOE_COMPLEX128: return MPI_C_DOUBLE_COMPLEX;
    default: return MPI_DATATYPE_NULL;  // bool has no sum, and MPI no float8
  }
}

// Any type of the size will do to move data.
MPI_Datatype moved_type(floe_type_t type) {
  switch (type_size(type)) {
    case 1: return MPI_UINT8_T;
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    case 8: return MPI_UINT64_T;
    default: return MPI_C_DOUBLE_COMPLEX;
  }
}

int ping_pong(MPI_Datatype type, const Call& c) {
  const int count = static_cast<int>(c.count), next = static_cast<int>(c.next());
  const auto send = [&] { return MPI_Send(c.send, count, type, next, kTag, MPI_COMM_WORLD); };
  const auto receive = [&] {
    return MPI_Recv(c.recv, count, type, static_cast<int>(c.previous()), kTag, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE);
  };
  const int first = c.rank == kRoot ? send() : receive();
  if (first != MPI_SUCCESS) return first;
  return c.rank == kRoot ? receive() : send();
}

int run_call(Kind kind, MPI_Datatype type, const Call& c) {
  const int count = static_cast<int>(c.count);
  const MPI_Comm world = MPI_COMM_WORLD;
  const bool root = c.rank == kRoot;
  const void* send = c.in_place ? MPI_IN_PLACE : c.send;
  switch (kind) {
    case Kind::kAllReduce: return MPI_Allreduce(send, c.recv, count, type, MPI_SUM, world);
    case Kind::kReduce: return MPI_Reduce(root ? send : c.send, c.recv, count, type, MPI_SUM, kRoot, world);
    case Kind::kBroadcast: return MPI_Bcast(c.recv, count, type, kRoot, world);
    case Kind::kAllGather: return MPI_Allgather(send, count, type, c.recv, count, type, world);
    case Kind::kReduceScatter: return MPI_Reduce_scatter_block(send, c.recv, count, type, MPI_SUM, world);
    case Kind::kAllToAll: return MPI_Alltoall(send, count, type, c.recv, count, type, world);
    case Kind::kGather:
      return MPI_Gather(root ? send : c.send, count, type, c.recv, count, type, kRoot, world);
    case Kind::kScatter: {
      void* recv = root && c.in_place ? MPI_IN_PLACE : c.recv;
      return MPI_Scatter(c.send, count, type, recv, count, type, kRoot, world);
    }
    case Kind::kSendRecv:
      return MPI_Sendrecv(c.send, count, type, static_cast<int>(c.next()), kTag, c.recv, count, type,
                          static_cast<int>(c.previous()), kTag, world, MPI_STATUS_IGNORE);
    case Kind::kPingPong: return ping_pong(type, c);
    case Kind::kBarrier: return MPI_Barrier(world);
  }
  return MPI_ERR_OTHER;
}

class Mpi {
 public:
  Mpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~Mpi() { MPI_Finalize(); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  uint32_t rank() const { return static_cast<uint32_t>(rank_); }
  uint32_t ranks() const { return static_cast<uint32_t>(ranks_); }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  Buffers::Heap heap() {
    const auto allocate = [](size_t bytes) -> void* {
      void* memory = nullptr;
      return MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &memory) == MPI_SUCCESS ? memory
                                                                                                : nullptr;
    };
    return {allocate, [](void* memory) { MPI_Free_mem(memory); }};
  }
  std::optional<MPI_Datatype> type(const Case& what) {
    const MPI_Datatype type = what.op->reduces ? summed_type(what.type) : moved_type(what.type);
    // MPI counts parts in int.
    if (type == MPI_DATATYPE_NULL || what.count > INT32_MAX) return std::nullopt;
    return type;
  }
  // MPI's form in place reads all of the one buffer, and leaves the result at its start.
  void place(const Case& what, Call& call) {
    if (what.op->kind == Kind::kReduceScatter && what.in_place) call.recv = call.send;
  }
  bool run(Kind kind, MPI_Datatype type, const Call& call) {
    return run_call(kind, type, call) == MPI_SUCCESS;
  }

 private:
  int rank_ = 0, ranks_ = 0;
};

}  // namespace
}  // namespace floe::bench

int main(int argc, char** argv) { return floe::bench::serve<floe::bench::Mpi>(argc, argv); }
