// The coefficients of the cost model (shm/cost_model.h) from measured times.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "shm/cost_model.h"

namespace floe::bench {

struct Sample {
  Protocol protocol;
  floe::Pattern pattern;
  uint64_t block_bytes;
  double ns;
};

struct Fit {
  Coefficients coefficients;
  std::array<double, kProtocols.size()>
      error{};  // root mean square of (expected / measured - 1), by protocol
  std::array<size_t, kProtocols.size()> samples{};
  std::array<bool, kProtocols.size()> kept{};  // its coefficients are those of `base`
};

// Least squares of the relative error. `base` keeps what the samples say nothing about: a protocol without
// two different amounts of bytes; all but `turn` where ranks are more than CPUs, as nothing else shows then.
Fit fit(std::span<const Sample> samples, const Surroundings& where, const Coefficients& base);

}  // namespace floe::bench
