// How floe compares with the fastest of its peers, over the sizes of a table.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "statistics.h"

namespace floe::bench {

// One size, with the times of floe and of the peers that were measured.
struct Comparison {
  uint64_t bytes = 0;
  Statistics floe;
  std::vector<std::pair<std::string, Statistics>> peers;  // not empty
};

// Ratios of the fastest peer's time to floe's: above 1 floe is faster.
struct Summary {
  double geometric_mean = 0;
  double least = 0;
  uint64_t least_bytes = 0;
  std::string least_peer;
};

// Of one statistic, such as &Statistics::p50; the fastest peer is the one with the least of it.
// `sizes` is not empty.
inline Summary summarize(const std::vector<Comparison>& sizes, double Statistics::*statistic) {
  Summary summary;
  double logs = 0;
  for (const Comparison& size : sizes) {
    const auto& fastest = *std::min_element(size.peers.begin(), size.peers.end(), [&](auto& a, auto& b) {
      return a.second.*statistic < b.second.*statistic;
    });
    const double ratio = fastest.second.*statistic / size.floe.*statistic;
    logs += std::log(ratio);
    if (&size == &sizes.front() || ratio < summary.least) {
      summary.least = ratio;
      summary.least_bytes = size.bytes;
      summary.least_peer = fastest.first;
    }
  }
  summary.geometric_mean = std::exp(logs / static_cast<double>(sizes.size()));
  return summary;
}

}  // namespace floe::bench
