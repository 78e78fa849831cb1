// An MPI library beside floe-bench: one process a rank, started by that library's mpiexec, which obeys
// floe-bench's commands on a Unix socket. tools/dev peers compiles it against each MPI.
//
// usage: peer_mpi NAME    connects to the abstract socket NAME/RANK, and reads the CPUs it is to run on
#include <mpi.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "buffers.h"
#include "measure.h"

namespace floe::bench {
namespace {

using Json = nlohmann::json;

constexpr int kTag = 1;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "peer_mpi (pid %d): %s\n", getpid(), what.c_str());
  std::_Exit(1);
}

// Known before MPI_Init, so that MPI sees this process where it stays.
std::string rank_of_launcher() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char* rank = std::getenv(name)) return rank;
  fail("no launcher has set PMI_RANK, PMIX_RANK or OMPI_COMM_WORLD_RANK: start it by mpiexec");
}

class Bench {
 public:
  explicit Bench(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof(address.sun_path)) fail("the socket's name is too long");
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), length) != 0)
      fail("cannot connect to floe-bench's socket " + name + ": " + std::strerror(errno));
  }

  // False: floe-bench has closed the connection. Blocks: an idle peer leaves the CPU to others.
  bool read_line(std::string& line) {
    for (;;) {
      if (const size_t end = buffered_.find('\n'); end != std::string::npos) {
        line = buffered_.substr(0, end);
        buffered_.erase(0, end + 1);
        return true;
      }
      char chunk[4096];
      const ssize_t n = read(socket_, chunk, sizeof(chunk));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      buffered_.append(chunk, static_cast<size_t>(n));
    }
  }

  void write_line(std::string line) {
    line += '\n';
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t n = send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("floe-bench has gone");
      sent += static_cast<size_t>(n);
    }
  }

 private:
  int socket_ = -1;
  std::string buffered_;
};

void pin(const std::string& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::istringstream list(cpus);
  for (std::string cpu; std::getline(list, cpu, ',');) CPU_SET(std::stoul(cpu), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) fail("cannot run on CPUs " + cpus);
}

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
    case Kind::kBarrier: return MPI_Barrier(world);
  }
  return MPI_ERR_OTHER;
}

Buffers::Heap mpi_heap() {
  const auto allocate = [](size_t bytes) -> void* {
    void* memory = nullptr;
    return MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &memory) == MPI_SUCCESS ? memory
                                                                                              : nullptr;
  };
  return {allocate, [](void* memory) { MPI_Free_mem(memory); }};
}

floe_type_t type_named(const std::string& name) {
  for (int type = 0; type < kTypes; ++type)
    if (name == type_name(type)) return static_cast<floe_type_t>(type);
  fail("no type " + name);
}

Case parse(const Json& command) {
  Case what;
  what.op = find_operation(command.at("op").get<std::string>());
  what.type = type_named(command.at("dtype"));
  what.count = command.at("count");
  what.in_place = command.at("in_place");
  what.manner = {command.at("cold"), command.at("touch"), command.at("heap"), command.at("offset"),
                 command.at("cpu")};
  return what;
}

Json run(const Case& what, uint64_t iterations, Buffers& buffers, const Ticks& ticks, uint32_t rank,
         uint32_t ranks) {
  const MPI_Datatype type = what.op->reduces ? summed_type(what.type) : moved_type(what.type);
  // MPI counts parts in int.
  if (type == MPI_DATATYPE_NULL || what.count > INT32_MAX) return {{"unsupported", true}};
  auto call = buffers.prepare(what, rank, ranks);
  if (!call) return {{"error", "no memory for the buffers: give smaller --sizes"}};
  // MPI's form in place reads all of the one buffer, and leaves the result at its start.
  if (what.op->kind == Kind::kReduceScatter && what.in_place) call->recv = call->send;
  Timings timings;
  const auto once = [&] { return run_call(what.op->kind, type, *call) == MPI_SUCCESS; };
  if (!measure(what, *call, ticks, iterations, once, timings)) return {{"error", "MPI reported an error"}};
  return {{"us", timings.us}, {"cpu_ns", timings.cpu_ns}, {"errors", timings.errors}};
}

int serve(const std::string& name) {
  const std::string expected = rank_of_launcher();
  Bench bench(name + "/" + expected);
  std::string line;
  if (!bench.read_line(line)) return 1;
  pin(line);
  MPI_Init(nullptr, nullptr);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (std::to_string(rank) != expected)
    fail("this is MPI's rank " + std::to_string(rank) + ", not " + expected);
  {
    const Ticks ticks;
    Buffers buffers(mpi_heap());
    MPI_Barrier(MPI_COMM_WORLD);
    bench.write_line("ready");
    while (bench.read_line(line)) {
      const Json command = Json::parse(line);
      bench.write_line(run(parse(command), command.at("iterations"), buffers, ticks,
                           static_cast<uint32_t>(rank), static_cast<uint32_t>(ranks))
                           .dump());
    }
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace floe::bench

int main(int argc, char** argv) {
  if (argc == 2) return floe::bench::serve(argv[1]);
  std::fprintf(stderr, "usage: peer_mpi NAME, started by floe-bench\n");
  return 2;
}
