#include "shm/explain.h"

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
  const SizeRanges ranges = choose(cost);
  std::vector<std::string> lines;
  const bool has_next = ranges.next != ranges.last && ranges.next_most > ranges.small_most;
  const Protocol after_small = has_next ? ranges.next : ranges.last;
  if (ranges.small_most > 0)
    lines.push_back(limit_text(cost, ranges.small_most, Protocol::kSmall, after_small));
  if (has_next && ranges.next_most != kNoLimit)
    lines.push_back(limit_text(cost, ranges.next_most, ranges.next, ranges.last));
  const Protocol last = has_next && ranges.next_most == kNoLimit ? ranges.next : ranges.last;
  lines.push_back(fmt::format("{:<11} {}", name_of(last), lines.empty() ? "always" : "above"));
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
