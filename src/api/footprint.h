// Blocks as callers describe them, and the memory that they cover.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/api.h"

namespace floe::api {

// A caller's arrays: `counts` has one entry per rank, `offsets` too or is NULL for blocks back to back.
struct Arrays {
  std::string_view counts_name;
  const uint64_t* counts;
  const uint64_t* offsets;
};

// Checked: a valid type, and blocks that memory could hold. An empty block is at offset 0, whatever the
// caller says, so that its address is never computed.
Result<Blocks> make_blocks(const Arrays& arrays, uint32_t size, floe_type_t type);

// Everything that one operation reads and writes on this rank.
class Footprint {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void reads(std::string_view buffer, const void* base, uint64_t bytes) {
    add({buffer, kNone, false}, base, {0, bytes});
  }
  void writes(std::string_view buffer, const void* base, uint64_t bytes) {
    add({buffer, kNone, true}, base, {0, bytes});
  }
  // All blocks but that of rank `skip`.
  void reads(std::string_view buffer, const void* base, const Blocks& blocks, uint32_t skip = kNone);
  void writes(std::string_view buffer, const void* base, const Blocks& blocks);

  // No buffer is NULL or FLOE_IN_PLACE, and what is written is neither read nor written by anything else.
  Status check();

 private:
  struct Piece {
    std::string_view buffer;
    uint32_t rank;  // whose block, or kNone: all of the buffer
    bool written;
    uintptr_t begin = 0, end = 0;
    std::string text() const;
  };

  void add(Piece piece, const void* base, const Block& block);

  std::vector<Piece> pieces_;
  Status problem_;  // of a buffer
};

}  // namespace floe::api
