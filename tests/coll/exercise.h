// One collective on one rank, with buffers between guard bytes and the right result to compare with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle.h"
#include "ranks.h"

namespace floe::test {

enum class Collective { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kBarrier };
const std::vector<Collective>& all_collectives();
bool reduces(Collective collective);

struct Shape {
  Collective collective = Collective::kAllReduce;
  floe_type_t type = FLOE_FLOAT32;
  floe_op_t op = FLOE_SUM;
  uint64_t count = 0;  // as the C API takes it
  uint32_t root = 0;
  bool in_place = false;
  size_t misalign = 0;  // bytes that the buffers are off a cache line
  Values values = Values::kExact;
  bool allocated = false;  // buffers of floe_mem_alloc

  std::string text() const;
};

// Calls `call` with the operation, or for kPremulSum with a handle for this rank's factor.
floe_status_t with_op(const Rank& rank, floe_type_t type, floe_op_t op,
                      const std::function<floe_status_t(floe_op_t)>& call);

// This rank as one of `comm`, made from the communicator of `parent`.
Rank described(const Rank& parent, floe_comm_t* comm);
// Calls every collective, small and large, and compares with the oracle.
void use(const Rank& rank);

class Exercise {
 public:
  Exercise(const Rank& rank, const Shape& shape, uint64_t seed);
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  floe_status_t start(floe_request_t** request);
  // After completion: the result is right, the input is as it was, and nothing beside them was written.
  testing::AssertionResult check() const;
  // start and check, blocking.
  void run();

  std::span<const std::byte> received() const { return {recv_, recv_bytes_}; }

 private:
  floe_status_t start(floe_op_t op, floe_request_t** request);
  // Bytes within a larger block, filled with a pattern around them.
  struct Guarded {
    // In memory of floe_mem_alloc if there is a context.
    Guarded(size_t bytes, size_t misalign, floe_context_t* context);
    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;
    ~Guarded();
    std::byte* data();
    const std::byte* data() const;
    bool intact() const;

    size_t bytes, offset;
    floe_context_t* context;
    Bytes own;
    std::span<std::byte> block;
  };

  bool is_root() const { return rank_.rank == shape_.root; }
  std::vector<Bytes> inputs() const;
  Bytes expected() const;
  void place();

  const Rank& rank_;
  const Shape shape_;
  const uint64_t seed_;
  const size_t part_;  // bytes of `count` elements
  Bytes input_;
  Guarded send_buffer_, recv_buffer_;
  const std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  size_t recv_bytes_ = 0;  // that the operation is to write; 0: none on this rank
};

}  // namespace floe::test
