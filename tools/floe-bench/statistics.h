// Order statistics of measured times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace floe::bench {

struct Statistics {
  double min = 0, p50 = 0, mean = 0, p99 = 0;
};

// The value at the given share of the way up (nearest rank). `sorted` is not empty.
inline double percentile(const std::vector<double>& sorted, double share) {
  const auto index = static_cast<size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)));
  return sorted[index];
}

inline Statistics statistics(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {values.front(), percentile(values, 0.5), sum / static_cast<double>(values.size()),
          percentile(values, 0.99)};
}

}  // namespace floe::bench
