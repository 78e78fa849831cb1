// This machine: which CPUs the process may use, pinning, and what hwloc knows about the hardware.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace floe {

// CPUs that this process may run on (its affinity inside its cgroup's set), in ascending order.
std::vector<unsigned> allowed_cpus();

// Binds the calling thread to `cpus`; an empty list changes nothing. FLOE_ERR_ENVIRONMENT lists the allowed
// CPUs if one of `cpus` is not among them.
Status pin_this_thread(std::span<const unsigned> cpus);

// The part of the machine that this process may use.
struct Topology {
  uint32_t packages = 0;
  uint32_t numa_nodes = 0;
  uint32_t cores = 0;
  uint32_t cpus = 0;  // hardware threads
  uint32_t l3_caches = 0;
  uint32_t l3_cpus = 0;   // most CPUs that share one L3 cache
  uint64_t l3_bytes = 0;  // of one L3 cache; 0: there is none, or it is unknown
  uint64_t l2_bytes = 0;  // of one L2 cache
  uint64_t memory_bytes = 0;

  // One line: "1 package, 1 NUMA node, 2 cores, 2 CPUs, L2 2 MiB, 1 x L3 32 MiB, 7.8 GiB memory".
  std::string describe() const;
};

// Asks hwloc once per process, at the first call (some milliseconds).
Result<Topology> topology();

}  // namespace floe
