// The steps of a schedule that no other rank takes part in: sums and copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/schedule.h"

namespace floe {

using Buffers = std::array<std::byte*, 3>;  // by Buffer

inline std::byte* at(const Buffers& buffers, const Range& range) {
  return buffers[static_cast<size_t>(range.buffer)] + range.offset;
}

struct Arithmetic {
  int type = 0;
  int op = 0;
  uint32_t ranks = 1;               // FLOE_AVG's divisor
  std::span<const double> factors;  // of kPremulSum, by source
};

// What is not yet where a step reads it, but at `data`.
struct Arrival {
  Range place;
  const std::byte* data = nullptr;
};

// Runs a step of kind kReduce or kCopy.
void run_local(const Step& step, const Buffers& buffers, const Arithmetic& arithmetic,
               const Arrival& arrival = {});

}  // namespace floe
