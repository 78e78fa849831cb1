// What the kernel and the container allow this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "findings.h"

namespace floe::info {

// The tightest limits of this process's cgroups, version 1 or 2, and of those around them.
struct CgroupLimits {
  std::optional<double> cpus;
  std::optional<uint64_t> memory_bytes;
  uint64_t memory_used = 0;  // of the cgroup with that limit
};

// `root` is put before /proc and /sys.
CgroupLimits read_cgroup_limits(const std::string& root = "");

// 25 GiB as "25.0 GiB".
std::string size_text(uint64_t bytes);

// CPUs, memory, locked memory, descriptors, /dev/shm, anonymous shared memory and that of peers, for `ranks`
// on this host.
void check_limits(Findings& findings, uint32_t ranks, bool uses_shm, const std::string& provider);

}  // namespace floe::info
