// Which protocol carries a collective on shared memory: the one that a small model expects to be the fastest.
//
// One operation takes, on the path through the ranks that have most to do,
//     (start + flag * flags) * ranks that share a CPU + KiB * bytes + turn * turns
// where flags, bytes (what a CPU copies into shared memory, reads there, and returns) and turns are counted,
// and the coefficients are measured: floe-bench --tune. All is in integers, so that ranks come to the same
// choice whatever compilers built them. Evaluated when a communicator is made; what remains are limits to
// compare with.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "shm/movement.h"

namespace floe {

enum class Protocol : uint8_t { kSmall, kStream, kReturnLine, kExchange };
inline constexpr std::array kProtocols = {Protocol::kSmall, Protocol::kStream, Protocol::kReturnLine,
                                          Protocol::kExchange};
std::string_view name_of(Protocol protocol);

// Picoseconds.
struct Coefficients {
  using Ps = int64_t;
  struct Line {
    Ps start;  // whatever the size, the first flag apart
    Ps kib;    // for 1024 bytes that are copied in, read or returned
  };

  Ps flag;  // until a line that another core has written is read
  Ps turn;  // until a rank has given its CPU to another: where ranks are more than CPUs
  Line small, stream, return_line, exchange;

  Line& of(Protocol protocol);
  const Line& of(Protocol protocol) const;
  std::string text() const;
};

inline constexpr std::array kLines = {&Coefficients::small, &Coefficients::stream, &Coefficients::return_line,
                                      &Coefficients::exchange};  // of kProtocols
inline Coefficients::Line& Coefficients::of(Protocol protocol) {
  return this->*kLines[static_cast<size_t>(protocol)];
}
inline const Coefficients::Line& Coefficients::of(Protocol protocol) const {
  return this->*kLines[static_cast<size_t>(protocol)];
}

// Where the ranks are, as all of them know it.
struct Surroundings {
  uint32_t ranks = 2;
  uint32_t ranks_per_cpu = 1;     // at most
  bool one_cache = true;          // their cores share an L3 cache
  uint32_t memory_percent = 100;  // the greatest distance between their NUMA nodes
};

// Rounded up; 64 stand for more, and for CPUs that are not known.
constexpr uint32_t ranks_per_cpu(uint32_t ranks, size_t cpus) {
  constexpr uint32_t kMost = 64;
  return cpus == 0 ? kMost : static_cast<uint32_t>(std::min<size_t>((ranks + cpus - 1) / cpus, kMost));
}

// What to give CostModel so that `protocol` carries all that it can.
std::string only(Protocol protocol);

class CostModel {
 public:
  // What was measured: see cost_model.cpp. `given`: a list such as "flag=20,small=10.5", ns, for some of the
  // coefficients, which are then used as they are, wherever the ranks run. FLOE_ERR_ENVIRONMENT lists the
  // names.
  static Result<CostModel> create(std::string_view given = "");

  Coefficients at(const Surroundings& where) const;
  // What was given, and a hash of what was measured: what ranks compare.
  std::string text() const;

 private:
  Coefficients near_, far_;
  std::string given_;
};

// Which protocols can carry a pattern, how much of each there is to do, and how long that takes.
class Cost {
 public:
  Cost(const Coefficients& coefficients, const Surroundings& where, const Pattern& pattern)
      : c_(coefficients), where_(where), pattern_(pattern) {}

  // The largest block that `protocol` carries; 0: none at all.
  uint64_t most(Protocol protocol) const;
  // Of one operation with blocks of no bytes, and what each KiB of a block adds, in ps.
  int64_t fixed(Protocol protocol) const;
  int64_t kib(Protocol protocol) const;
  double ns(Protocol protocol, uint64_t block_bytes) const;
  // Bytes of a block that cost anything: those that come in the line of a small slot's flag do not.
  static uint64_t charged(Protocol protocol, uint64_t block_bytes);

  struct Work {
    uint64_t flags;            // waited for: those of several ranks at once
    uint64_t blocks_by_ranks;  // blocks copied in, read or returned, times the number of ranks
    uint64_t times;            // by how many ranks of a CPU
  };
  Work work(Protocol protocol) const;
  // How often a CPU that ranks share goes from one to the next.
  uint64_t turns(Protocol protocol) const;

 private:
  bool exchanges() const { return where_.ranks == 2 && pattern_.exchanges(); }

  Coefficients c_;
  Surroundings where_;
  Pattern pattern_;
};

struct NamedPattern {
  std::string_view name;
  Pattern pattern;
};
inline constexpr std::array kPatterns = {NamedPattern{"all_reduce", pattern::kAllReduce},
                                         NamedPattern{"reduce", pattern::kReduce},
                                         NamedPattern{"reduce_scatter", pattern::kReduceScatter},
                                         NamedPattern{"broadcast", pattern::kBroadcast},
                                         NamedPattern{"all_gather", pattern::kAllGather},
                                         NamedPattern{"gather", pattern::kGather},
                                         NamedPattern{"scatter", pattern::kScatter},
                                         NamedPattern{"all_to_all", pattern::kAllToAll}};

// By bytes of a block, upwards; the last one has no limit. Those that end before they begin are empty.
struct SizeRanges {
  struct Range {
    uint64_t most = std::numeric_limits<uint64_t>::max();
    Protocol protocol = Protocol::kStream;
  };
  std::array<Range, 4> ranges;

  Protocol at(uint64_t block_bytes) const {
    size_t i = 0;
    while (block_bytes > ranges[i].most) ++i;
    return ranges[i].protocol;
  }
};
SizeRanges choose(const Cost& cost);

// The choices for all patterns; that of the barrier, which has no bytes, is to be small.
class Choices {
 public:
  Choices(const CostModel& model, const Surroundings& where);
  // By what was measured, under one L3 cache.
  explicit Choices(uint32_t ranks) : Choices(*CostModel::create(), {ranks}) {}
  const SizeRanges& operator[](const Pattern& pattern) const { return choices_[index(pattern)]; }

 private:
  static size_t index(const Pattern& p) {
    return static_cast<size_t>(p.publish) | static_cast<size_t>(p.read) << 2 | size_t{p.block_each} << 4 |
           size_t{p.reduces} << 5;
  }
  std::array<SizeRanges, 64> choices_;
};

}  // namespace floe
