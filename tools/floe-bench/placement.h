// How near the two cores are to each other at this moment. A hypervisor moves virtual CPUs between cores
// that share a cache and cores that don't, and the same code then differs several times in speed.
#pragma once

#include <string_view>
#include <utility>

#include "ticks.h"

namespace floe::bench {

struct Placement {
  double exchange_ns = 0;  // both cores write a flag and wait for the other's; 0: not measured
  double read_gbps = 0;    // reading what the other core has just written

  bool measured() const { return exchange_ns > 0; }
  std::string_view state() const;  // "smt", "near", "far", "-"
};

// Two threads, pinned to the CPUs, for about a millisecond. The CPUs should be idle.
Placement probe_placement(const Ticks& ticks, std::pair<unsigned, unsigned> cpus);

}  // namespace floe::bench
