// Whose CPU this is, where that decides and no topology tells. All ranks of a host find the same.
#pragma once

namespace floe {

// Under one last-level cache, what another core has written takes as long to come as where AMD's cores share
// none, and what the second-level cache does not hold comes at half their speed (Emerald Rapids: two flags
// exchanged in 180 ns, 15 and 22 GB/s).
inline bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace floe
