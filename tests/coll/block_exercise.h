// One collective of blocks on one rank: blocks of any size, in any order, with gaps that must stay as they
// are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oracle.h"
#include "ranks.h"

namespace floe::test {

enum class BlockCollective {
  kAllGatherV,
  kReduceScatterV,
  kAllToAll,
  kAllToAllV,
  kGather,
  kGatherV,
  kScatter,
  kScatterV
};
const std::vector<BlockCollective>& all_block_collectives();

struct BlockShape {
  BlockCollective collective = BlockCollective::kAllToAllV;
  floe_type_t type = FLOE_FLOAT32;
  floe_op_t op = FLOE_SUM;
  uint64_t largest = 0;  // elements of a block; v-forms have smaller ones too, and empty ones
  uint32_t root = 0;
  bool in_place = false;
  bool gaps = false;  // v-forms: blocks in another order, with gaps, instead of offsets = NULL

  std::string text() const;
};

class BlockExercise {
 public:
  BlockExercise(const Rank& rank, const BlockShape& shape, uint64_t seed);
  BlockExercise(const BlockExercise&) = delete;
  BlockExercise& operator=(const BlockExercise&) = delete;

  floe_status_t start(floe_request_t** request);
  // After completion: both buffers are what they must be, gaps included.
  testing::AssertionResult check() const;
  // start and check, blocking.
  void run();

 private:
  // Blocks in a buffer, by rank.
  struct Layout {
    std::vector<uint64_t> counts, offsets;
    uint64_t elements = 0;  // of the whole buffer
  };
  // A buffer, and what it must be afterwards.
  struct Buffer {
    Bytes bytes, want;
    void resize(size_t size);
    void put(size_t at, const Bytes& data);     // the input; stays unless something else is expected
    void expect(size_t at, const Bytes& data);  // the output
    void* data() { return bytes.empty() ? nullptr : bytes.data(); }
  };

  bool is_root() const { return rank_.rank == shape_.root; }
  bool v_form() const;
  uint64_t count(uint32_t from, uint32_t to) const;
  Bytes block(uint32_t from, uint32_t to) const;
  template <class Count>
  Layout lay_out(Count&& count) const;
  size_t at(const Layout& layout, uint32_t rank) const { return layout.offsets[rank] * element_; }
  const uint64_t* offsets(const Layout& layout) const;

  void prepare_all_gather();
  void prepare_reduce_scatter();
  void prepare_all_to_all();
  void prepare_gather();
  void prepare_scatter();
  floe_status_t start_rooted(const void* send, void* recv, floe_request_t** request);

  const Rank& rank_;
  const BlockShape shape_;
  const uint64_t seed_;
  const size_t element_;
  Layout from_, to_;  // of send and of recv
  Buffer send_, recv_;
};

}  // namespace floe::test
