// oneCCL beside floe-bench, over the Intel MPI whose mpiexec starts it. tools/dev peers compiles it.
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <oneapi/ccl.hpp>
#include <optional>
#include <utility>

#include "peer_program.h"

// Where a profiler of Intel's would hang itself in: oneCCL's archive for CPUs alone comes without them.
extern "C" {
void* __itt_domain_create_ptr__3_0 = nullptr;
void* __itt_event_create_ptr__3_0 = nullptr;
void* __itt_event_end_ptr__3_0 = nullptr;
void* __itt_event_start_ptr__3_0 = nullptr;
void* __itt_metadata_add_ptr__3_0 = nullptr;
void* __itt_string_handle_create_ptr__3_0 = nullptr;
void* __itt_task_begin_ptr__3_0 = nullptr;
void* __itt_task_end_ptr__3_0 = nullptr;
void* __itt_thread_set_name_ptr__3_0 = nullptr;
}

namespace floe::bench {
namespace {

// The address at which oneCCL's ranks meet, which the first one makes.
std::shared_ptr<ccl::kvs> meet(bool first) {
  std::shared_ptr<ccl::kvs> kvs;
  ccl::kvs::address_type address{};
  if (first) {
    kvs = ccl::create_main_kvs();
    address = kvs->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  return first ? kvs : ccl::create_kvs(address);
}

std::optional<ccl::datatype> summed_type(floe_type_t type) {
  switch (type) {
    case FLOE_FLOAT32: return ccl::datatype::float32;
    case FLOE_FLOAT64: return ccl::datatype::float64;
    case FLOE_FLOAT16: return ccl::datatype::float16;
    case FLOE_BFLOAT16: return ccl::datatype::bfloat16;
    case FLOE_INT8: return ccl::datatype::int8;
    case FLOE_INT16: return ccl::datatype::int16;
    case FLOE_INT32: return ccl::datatype::int32;
    case FLOE_INT64: return ccl::datatype::int64;
    case FLOE_UINT8: return ccl::datatype::uint8;
    case FLOE_UINT16: return ccl::datatype::uint16;
    case FLOE_UINT32: return ccl::datatype::uint32;
    case FLOE_UINT64: return ccl::datatype::uint64;
    default: return std::nullopt;
  }
}

// Any type of the size will do to move data.
std::optional<ccl::datatype> moved_type(floe_type_t type) {
  switch (type_size(type)) {
    case 1: return ccl::datatype::uint8;
    case 2: return ccl::datatype::uint16;
    case 4: return ccl::datatype::uint32;
    case 8: return ccl::datatype::uint64;
    default: return std::nullopt;
  }
}

class OneCcl {
 public:
  OneCcl() {
    ccl::init();
    int started = 0;
    MPI_Initialized(&started);
    if (started == 0) MPI_Init(nullptr, nullptr);
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    comm_.emplace(ccl::create_communicator(ranks, rank, meet(rank == 0)));
  }
  ~OneCcl() {
    comm_.reset();
    MPI_Finalize();
  }
  OneCcl(const OneCcl&) = delete;
  OneCcl& operator=(const OneCcl&) = delete;

  uint32_t rank() const { return static_cast<uint32_t>(comm_->rank()); }
  uint32_t ranks() const { return static_cast<uint32_t>(comm_->size()); }
  void barrier() { ccl::barrier(*comm_).wait(); }
  // It has none for the host's memory.
  Buffers::Heap heap() {
    return {[](size_t bytes) { return std::malloc(bytes); }, [](void* memory) { std::free(memory); }};
  }
  std::optional<ccl::datatype> type(const Case& what) {
    if (what.op->kind == Kind::kGather || what.op->kind == Kind::kScatter) return std::nullopt;
    return what.op->reduces ? summed_type(what.type) : moved_type(what.type);
  }
  void place(const Case&, Call&) {}
  bool run(Kind kind, ccl::datatype type, const Call& c) {
    try {
      call(kind, type, c);
      return true;
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "oneCCL: %s\n", failure.what());
      return false;
    }
  }

 private:
  void call(Kind kind, ccl::datatype type, const Call& c) {
    constexpr auto kSum = ccl::reduction::sum;
    constexpr int kFirst = static_cast<int>(kRoot);
    switch (kind) {
      case Kind::kAllReduce: return finish(ccl::allreduce(c.send, c.recv, c.count, type, kSum, *comm_));
      case Kind::kReduce: return finish(ccl::reduce(c.send, c.recv, c.count, type, kSum, kFirst, *comm_));
      case Kind::kBroadcast: return finish(ccl::broadcast(c.recv, c.count, type, kFirst, *comm_));
      case Kind::kAllGather: return finish(ccl::allgather(c.send, c.recv, c.count, type, *comm_));
      case Kind::kReduceScatter:
        return finish(ccl::reduce_scatter(c.send, c.recv, c.count, type, kSum, *comm_));
      case Kind::kAllToAll: return finish(ccl::alltoall(c.send, c.recv, c.count, type, *comm_));
      case Kind::kBarrier: return finish(ccl::barrier(*comm_));
      case Kind::kSendRecv: {
        ccl::event sent = ccl::send(c.send, c.count, type, static_cast<int>(c.next()), *comm_);
        ccl::event received = ccl::recv(c.recv, c.count, type, static_cast<int>(c.previous()), *comm_);
        received.wait();
        return finish(std::move(sent));
      }
      case Kind::kPingPong: {
        const auto send = [&] {
          finish(ccl::send(c.send, c.count, type, static_cast<int>(c.next()), *comm_));
        };
        if (c.rank == kRoot) send();
        finish(ccl::recv(c.recv, c.count, type, static_cast<int>(c.previous()), *comm_));
        if (c.rank != kRoot) send();
        return;
      }
      case Kind::kGather:
      case Kind::kScatter: return;  // see type()
    }
  }
  static void finish(ccl::event event) { event.wait(); }

  std::optional<ccl::communicator> comm_;
};

}  // namespace
}  // namespace floe::bench

int main(int argc, char** argv) { return floe::bench::serve<floe::bench::OneCcl>(argc, argv); }
