#include "topo/spread.h"

#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>

namespace floe {
namespace {

constexpr uint32_t kMostPercent = 10'000;

// Null if hwloc can't.
hwloc_topology_t load() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
      hwloc_topology_load(topology) == 0)
    return topology;
  hwloc_topology_destroy(topology);
  return nullptr;
}

bool under_one_cache(hwloc_topology_t topology, hwloc_const_bitmap_t cpus) {
  for (hwloc_obj_t cache = nullptr;
       (cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L3CACHE, cache)) != nullptr;)
    if (hwloc_bitmap_isincluded(cpus, cache->complete_cpuset)) return true;
  return false;
}

// The greatest distance between two nodes that have some of the CPUs each, and not the same ones, as nodes of
// different memory beside the same cores have.
uint32_t memory_percent(const hwloc_distances_s& matrix, hwloc_const_bitmap_t cpus) {
  const auto used = [&](hwloc_obj_t node) {
    return node != nullptr && hwloc_bitmap_intersects(node->complete_cpuset, cpus);
  };
  uint64_t most = 100;
  for (unsigned from = 0; from < matrix.nbobjs; ++from)
    for (unsigned to = 0; to < matrix.nbobjs; ++to) {
      const hwloc_obj_t a = matrix.objs[from], b = matrix.objs[to];
      const uint64_t local = matrix.values[from * matrix.nbobjs + from];
      if (!used(a) || !used(b) || local == 0 ||
          hwloc_bitmap_intersects(a->complete_cpuset, b->complete_cpuset))
        continue;
      most = std::max<uint64_t>(most, matrix.values[from * matrix.nbobjs + to] * 100 / local);
    }
  return static_cast<uint32_t>(std::min<uint64_t>(most, kMostPercent));
}

}  // namespace

std::string Spread::encode() const { return fmt::format("{} {}", one_cache ? 1 : 0, memory_percent); }

Result<Spread> Spread::decode(std::string_view text) {
  Spread spread;
  const char* const end = text.data() + text.size();
  const auto number =
      std::from_chars(text.data() + std::min<size_t>(2, text.size()), end, spread.memory_percent);
  if (!(text.starts_with("0 ") || text.starts_with("1 ")) || number.ec != std::errc() || number.ptr != end ||
      spread.memory_percent < 100 || spread.memory_percent > kMostPercent)
    return error(FLOE_ERR_STORE, "'{}' does not say how far CPUs are from each other", text);
  spread.one_cache = text[0] == '1';
  return spread;
}

Spread spread_of(hwloc_topology_t topology, std::span<const unsigned> cpus) {
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> wanted(hwloc_bitmap_alloc(),
                                                                         hwloc_bitmap_free);
  if (!wanted || cpus.empty()) return {};
  for (const unsigned cpu : cpus) hwloc_bitmap_set(wanted.get(), cpu);
  Spread spread;
  spread.one_cache = under_one_cache(topology, wanted.get());
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &matrix,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) == 0 &&
      count > 0) {
    spread.memory_percent = memory_percent(*matrix, wanted.get());
    hwloc_distances_release(topology, matrix);
  }
  return spread;
}

Spread spread_of(std::span<const unsigned> cpus) {
  static std::mutex mutex;
  static const hwloc_topology_t topology = load();  // leaked: used until the last thread ends
  const std::lock_guard guard(mutex);               // hwloc changes it while it looks distances up
  return topology ? spread_of(topology, cpus) : Spread();
}

}  // namespace floe
