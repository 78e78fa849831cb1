#include "topo/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>

namespace floe {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* handle) const { hwloc_topology_destroy(handle); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, DestroyTopology>;

uint32_t count(hwloc_topology_t handle, hwloc_obj_type_t type) {
  const int n = hwloc_get_nbobjs_by_type(handle, type);
  return n > 0 ? static_cast<uint32_t>(n) : 0;  // -1: the type is on several levels
}

uint64_t cache_bytes(hwloc_topology_t handle, hwloc_obj_type_t type) {
  const hwloc_obj_t cache = hwloc_get_obj_by_type(handle, type, 0);
  return cache && cache->attr ? cache->attr->cache.size : 0;
}

// The most CPUs under one L3 cache.
uint32_t cpus_per_l3(hwloc_topology_t handle) {
  int most = 0;
  for (hwloc_obj_t cache = nullptr;
       (cache = hwloc_get_next_obj_by_type(handle, HWLOC_OBJ_L3CACHE, cache)) != nullptr;)
    most = std::max(most, hwloc_bitmap_weight(cache->cpuset));
  return static_cast<uint32_t>(most);
}

Result<Topology> ask_hwloc() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return error(FLOE_ERR_SYSTEM, "hwloc can't be initialised");
  const TopologyHandle handle(raw);
  if (hwloc_topology_load(raw) != 0)
    return error(FLOE_ERR_SYSTEM, "hwloc can't read this machine's topology");

  // hwloc has left out what the cgroup forbids; leave out what the affinity does.
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> mine(hwloc_bitmap_alloc(),
                                                                       hwloc_bitmap_free);
  for (const unsigned cpu : allowed_cpus()) hwloc_bitmap_set(mine.get(), cpu);
  if (hwloc_bitmap_intersects(mine.get(), hwloc_topology_get_topology_cpuset(raw)) &&
      hwloc_topology_restrict(raw, mine.get(), 0) != 0)
    return error(FLOE_ERR_SYSTEM, "hwloc can't restrict the topology to the allowed CPUs");

  Topology t;
  t.packages = count(raw, HWLOC_OBJ_PACKAGE);
  t.numa_nodes = count(raw, HWLOC_OBJ_NUMANODE);
  t.cores = count(raw, HWLOC_OBJ_CORE);
  t.cpus = count(raw, HWLOC_OBJ_PU);
  t.l3_caches = count(raw, HWLOC_OBJ_L3CACHE);
  t.l3_cpus = cpus_per_l3(raw);
  t.l3_bytes = cache_bytes(raw, HWLOC_OBJ_L3CACHE);
  t.l2_bytes = cache_bytes(raw, HWLOC_OBJ_L2CACHE);
  t.memory_bytes = hwloc_get_root_obj(raw)->total_memory;
  return t;
}

std::string counted(uint32_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string size_text(uint64_t bytes) {
  constexpr uint64_t kKi = 1 << 10, kMi = 1 << 20, kGi = 1 << 30;
  if (bytes >= kGi) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / kGi);
  if (bytes >= kMi) return fmt::format("{:.4g} MiB", static_cast<double>(bytes) / kMi);
  return fmt::format("{} KiB", bytes / kKi);
}

}  // namespace

std::string Topology::describe() const {
  std::string text =
      fmt::format("{}, {}, {}, {}", counted(packages, "package"), counted(numa_nodes, "NUMA node"),
                  counted(cores, "core"), counted(cpus, "CPU"));
  if (l2_bytes) text += fmt::format(", L2 {}", size_text(l2_bytes));
  if (l3_bytes) text += fmt::format(", {} x L3 {}", l3_caches, size_text(l3_bytes));
  return text + fmt::format(", {} memory", size_text(memory_bytes));
}

Result<Topology> topology() {
  static const Result<Topology> once = ask_hwloc();
  return once;
}

}  // namespace floe
