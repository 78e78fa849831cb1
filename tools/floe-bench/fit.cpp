#include "fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace floe::bench {
namespace {

struct Point {
  double starts, kibs, ns;
};

// ns = starts * start + kibs * kib, neither below 0, with the least sum of squared relative errors. False if
// the points are all on one line through 0.
bool fit_line(std::span<const Point> points, double* start, double* kib) {
  double ss = 0, sk = 0, kk = 0, sy = 0, ky = 0;
  for (const Point& p : points) {
    const double weight = 1 / (p.ns * p.ns);
    ss += weight * p.starts * p.starts;
    sk += weight * p.starts * p.kibs;
    kk += weight * p.kibs * p.kibs;
    sy += weight * p.starts * p.ns;
    ky += weight * p.kibs * p.ns;
  }
  const double determinant = ss * kk - sk * sk;
  if (points.size() < 2 || determinant <= 1e-12 * ss * kk) return false;
  *start = (kk * sy - sk * ky) / determinant;
  *kib = (ss * ky - sk * sy) / determinant;
  if (*start < 0) {
    *start = 0;
    *kib = ky / kk;
  } else if (*kib < 0) {
    *kib = 0;
    *start = sy / ss;
  }
  return true;
}

Coefficients::Ps ps(double ns) { return std::llround(ns * 1000); }

// A line for a protocol, through what remains of its times without the flags. How often the model takes each
// coefficient is what it makes of one that stands alone. False without two different times.
bool fit_protocol(Protocol protocol, std::span<const Sample> samples, const Surroundings& where,
                  Coefficients* c) {
  constexpr Coefficients::Ps kUnit = 1'000'000;
  Coefficients unit{}, flags{};
  unit.of(protocol) = {kUnit, kUnit};
  flags.flag = c->flag;
  std::vector<Point> points;
  for (const Sample& s : samples) {
    if (s.protocol != protocol) continue;
    const Cost units(unit, where, s.pattern);
    const double kibs = static_cast<double>(Cost::charged(protocol, s.block_bytes)) / 1024;
    points.push_back({static_cast<double>(units.fixed(protocol)) / kUnit,
                      kibs * static_cast<double>(units.kib(protocol)) / kUnit,
                      std::max(s.ns - Cost(flags, where, s.pattern).ns(protocol, 0), 1.0)});
  }
  double start = 0, kib = 0;
  if (!fit_line(points, &start, &kib)) return false;
  c->of(protocol) = {ps(start), ps(kib)};
  return true;
}

// The median of what a turn must take for each time to be what it is.
void fit_turn(std::span<const Sample> samples, const Surroundings& where, Coefficients* c) {
  c->turn = 0;
  std::vector<double> turns;
  for (const Sample& s : samples) {
    const Cost cost(*c, where, s.pattern);
    const auto times = static_cast<double>(cost.turns(s.protocol));
    if (times == 0) continue;
    turns.push_back(std::max(0.0, (s.ns - cost.ns(s.protocol, s.block_bytes)) / times));
  }
  std::sort(turns.begin(), turns.end());
  if (!turns.empty()) c->turn = ps(turns[turns.size() / 2]);
}

}  // namespace

Fit fit(std::span<const Sample> samples, const Surroundings& where, const Coefficients& base) {
  Fit result{.coefficients = base};
  if (where.ranks_per_cpu > 1) fit_turn(samples, where, &result.coefficients);
  for (const Protocol protocol : kProtocols)
    result.kept[static_cast<size_t>(protocol)] =
        where.ranks_per_cpu > 1 || !fit_protocol(protocol, samples, where, &result.coefficients);

  for (const Sample& s : samples) {
    const double expected = Cost(result.coefficients, where, s.pattern).ns(s.protocol, s.block_bytes);
    const auto at = static_cast<size_t>(s.protocol);
    result.error[at] += (expected / s.ns - 1) * (expected / s.ns - 1);
    ++result.samples[at];
  }
  for (size_t i = 0; i < kProtocols.size(); ++i)
    if (result.samples[i] > 0)
      result.error[i] = std::sqrt(result.error[i] / static_cast<double>(result.samples[i]));
  return result;
}

}  // namespace floe::bench
