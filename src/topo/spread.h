// How far CPUs are from each other, as far as the cost of sharing memory depends on it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

struct hwloc_topology;

namespace floe {

struct Spread {
  bool one_cache = false;         // all are under one L3 cache
  uint32_t memory_percent = 100;  // the greatest latency between their NUMA nodes; 100: that of local memory

  // One rank finds this out and tells the others: "1 100", and back.
  std::string encode() const;
  static Result<Spread> decode(std::string_view text);

  bool operator==(const Spread&) const = default;
};

// Asks hwloc, which reads the machine once per process (3 ms for two CPUs). The CPUs may be those of other
// processes, which this one's cgroup forbids. Where hwloc knows nothing there is no common cache, and memory
// is local.
Spread spread_of(std::span<const unsigned> cpus);
Spread spread_of(hwloc_topology* topology, std::span<const unsigned> cpus);

}  // namespace floe
