#include "shm/explain.h"

#include <algorithm>
#include <limits>

namespace floe {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

std::string time_text(double ns) {
  return ns < 1000 ? fmt::format("{:.0f} ns", ns) : fmt::format("{:.3g} us", ns / 1000);
}

std::string beside(const Cost& cost, uint64_t bytes, Protocol low, Protocol high) {
  return fmt::format("{} B: {} {}, {} {}", bytes, name_of(low), time_text(cost.ns(low, bytes)), name_of(high),
                     time_text(cost.ns(high, bytes)));
}

std::string limit_text(const Cost& cost, uint64_t most, Protocol low, Protocol high) {
  std::string text = fmt::format("{:<11} to {} B", name_of(low), most);
  // Below the crossing of the lines only if there is no room for more.
  if (cost.most(low) == most && cost.ns(low, most) < cost.ns(high, most)) text += ", its room";
  return text + fmt::format("  ({}; {})", beside(cost, most / 2, low, high),
                            beside(cost, most < kNoLimit / 2 ? 2 * most : most, low, high));
}

}  // namespace

std::vector<std::string> explain(const Cost& cost) {
  std::vector<SizeRanges::Range> ranges;  // neither empty, nor one protocol twice in a row
  for (const SizeRanges::Range& range : choose(cost).ranges) {
    if (!ranges.empty() && ranges.back().protocol == range.protocol)
      ranges.back().most = std::max(ranges.back().most, range.most);
    else if (range.most > (ranges.empty() ? 0 : ranges.back().most))
      ranges.push_back(range);
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i + 1 < ranges.size(); ++i)
    lines.push_back(limit_text(cost, ranges[i].most, ranges[i].protocol, ranges[i + 1].protocol));
  lines.push_back(
      fmt::format("{:<11} {}", name_of(ranges.back().protocol), lines.empty() ? "always" : "above"));
  return lines;
}

std::string explain(const Surroundings& where) {
  std::string text = fmt::format("{} ranks", where.ranks);
  if (where.ranks_per_cpu > 1) return text + fmt::format(", {} to a CPU", where.ranks_per_cpu);
  if (where.one_cache) return text + " under one L3 cache";
  if (where.memory_percent <= 100) return text + " that share no L3 cache";
  return text + fmt::format(" whose memory is up to {:.1f} times as far as local memory (never run)",
                            where.memory_percent / 100.0);
}

}  // namespace floe
