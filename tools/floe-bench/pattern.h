// The data that ranks exchange: small integers that differ by rank, iteration and position, whose sums are
// exact in every element type, so that a result is right or wrong, never nearly right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "operations.h"

namespace floe::bench {

class Pattern {
 public:
  Pattern(int type, uint32_t ranks);

  // Writes what `rank` contributes in `iteration`, at about the speed of memcpy.
  void fill(void* to, uint64_t count, uint32_t rank, uint64_t iteration) const;

  // How many elements of `recv` differ from what `parts` say.
  uint64_t errors(const void* recv, const std::vector<Part>& parts, uint64_t iteration) const;

 private:
  // Elements whose values count up from one random start.
  static constexpr uint64_t kRun = 64;

  unsigned start(uint64_t run, uint32_t rank, uint64_t iteration) const;
  uint64_t errors_in(const std::byte* recv, const Part& part, uint64_t iteration) const;

  size_t element_;
  uint32_t ranks_;
  unsigned mask_;                    // values are 0...mask_
  std::vector<std::byte> counting_;  // 0, 1, ..., mask_, 0, 1, ...: kRun elements from each start
  std::vector<std::byte> sums_;      // every possible sum, as an element
};

}  // namespace floe::bench
