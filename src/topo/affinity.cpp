#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/settings.h"
#include "topo/topology.h"

namespace floe {
namespace {

// A CPU set of any size: cpu_set_t ends at CPU 1023.
class CpuSet {
 public:
  explicit CpuSet(unsigned cpus) : cpus_(cpus), set_(CPU_ALLOC(cpus)) { CPU_ZERO_S(bytes(), set_.get()); }

  size_t bytes() const { return CPU_ALLOC_SIZE(cpus_); }
  cpu_set_t* get() const { return set_.get(); }
  void add(unsigned cpu) { CPU_SET_S(cpu, bytes(), set_.get()); }
  bool has(unsigned cpu) const { return CPU_ISSET_S(cpu, bytes(), set_.get()); }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  unsigned cpus_;
  std::unique_ptr<cpu_set_t, Free> set_;
};

}  // namespace

std::vector<unsigned> allowed_cpus() {
  // The main thread's mask: the calling thread may be a worker that has been pinned. The kernel keeps it
  // inside the cgroup's set. EINVAL means that the machine has more CPUs than the set has room for.
  constexpr unsigned kMost = 1 << 20;
  for (unsigned room = 1024; room <= kMost; room *= 2) {
    const CpuSet set(room);
    if (::sched_getaffinity(::getpid(), set.bytes(), set.get()) == 0) {
      std::vector<unsigned> cpus;
      for (unsigned cpu = 0; cpu < room; ++cpu)
        if (set.has(cpu)) cpus.push_back(cpu);
      return cpus;
    }
    if (errno != EINVAL) break;
  }
  return {};
}

Status pin_this_thread(std::span<const unsigned> cpus) {
  if (cpus.empty()) return {};
  const std::vector<unsigned> allowed = allowed_cpus();
  for (const unsigned cpu : cpus)
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu))
      return error(FLOE_ERR_ENVIRONMENT, "CPU {} is not one that this process may use: allowed are {}", cpu,
                   format_cpu_list(allowed));
  CpuSet set(std::max(1024u, *std::max_element(cpus.begin(), cpus.end()) + 1));
  for (const unsigned cpu : cpus) set.add(cpu);
  if (::sched_setaffinity(0, set.bytes(), set.get()) != 0)
    return system_error(fmt::format("binding a thread to CPUs {}", format_cpu_list(cpus)), errno);
  return {};
}

}  // namespace floe
