#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/types.h"

namespace floe::bench {
namespace {

struct Bandwidth {
  double algorithm, bus;  // GB/s
};

// As in nccl-tests: size over mean time, and what a perfect algorithm would move over the busiest link.
Bandwidth bandwidth(const Row& row) {
  if (row.us.mean <= 0) return {0, 0};
  const double algorithm = static_cast<double>(row.bytes) / row.us.mean / 1000;
  return {algorithm, algorithm * row.what.op->bus_factor(row.ranks)};
}

nlohmann::ordered_json to_json(const Row& row) {
  const auto [algbw, busbw] = bandwidth(row);
  nlohmann::ordered_json line = {
      {"peer", row.peer},
      {"op", row.what.op->name},
      {"dtype", type_name(row.what.type)},
      {"bytes", row.bytes},
      {"count", row.what.count},
      {"ranks", row.ranks},
      {"in_place", row.what.in_place},
      {"calls", row.calls},
      {"min_us", row.us.min},
      {"p50_us", row.us.p50},
      {"mean_us", row.us.mean},
      {"p99_us", row.us.p99},
      {"algbw_gbps", algbw},
      {"busbw_gbps", busbw},
      {"errors", row.errors},
      {"placement",
       {{"state", row.state},
        {"exchange_ns", row.placement.exchange_ns},
        {"read_gbps", row.placement.read_gbps}}},
      {"blocks", row.blocks},
      {"blocks_used", row.blocks_used},
  };
  if (row.ratio) {
    line["ratio_p50"] = row.ratio->p50;
    line["ratio_mean"] = row.ratio->mean;
  }
  return line;
}

std::string to_text(const Row& row) {
  const auto [algbw, busbw] = bandwidth(row);
  std::string line = fmt::format(
      "{:>11} {:>11} {:>9} {:>5} {:>5} {:>11.3f} {:>8.2f} {:>8.2f} {:>7} {:>11.3f} {:>11.3f} {:>11.3f}  "
      "{:>5} {}/{}",
      row.bytes, row.what.count, type_name(row.what.type), row.what.op->reduces ? "sum" : "none", row.peer,
      row.us.mean, algbw, busbw, row.errors, row.us.min, row.us.p50, row.us.p99, row.state, row.blocks_used,
      row.blocks);
  if (row.ratio) line += fmt::format(" {:>9.1f} {:>9.1f}", row.ratio->p50, row.ratio->mean);
  return line;
}

struct Summary {
  double geometric_mean = 0, least = 0;
};

Summary summarize(const std::vector<double>& ratios) {
  double logs = 0;
  for (const double ratio : ratios) logs += std::log(ratio);
  return {std::exp(logs / static_cast<double>(ratios.size())),
          *std::min_element(ratios.begin(), ratios.end())};
}

}  // namespace

void Report::begin(uint32_t ranks, const std::string& cpus) const {
  if (json_) return;
  fmt::print("# floe {}.{}.{}, {} rank{}, {}\n", FLOE_VERSION_MAJOR, FLOE_VERSION_MINOR, FLOE_VERSION_PATCH,
             ranks, ranks == 1 ? "" : "s", cpus);
  fmt::print("# {:>9} {:>11} {:>9} {:>5} {:>5} {:>11} {:>8} {:>8} {:>7} {:>11} {:>11} {:>11}  {:<9}{}\n",
             "size", "count", "type", "op", "peer", "time", "algbw", "busbw", "errors", "min", "p50", "p99",
             "placement", with_peer_ ? " p50 ratio mean ratio" : "");
  fmt::print("# {:>9} {:>11} {:>9} {:>5} {:>5} {:>11} {:>8} {:>8} {:>7} {:>11} {:>11} {:>11}  {:<9}\n", "(B)",
             "(elements)", "", "", "", "mean (us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)",
             "(blocks)");
}

void Report::add(Row row) {
  errors_ += row.errors;
  if (json_)
    fmt::print("{}\n", to_json(row).dump());
  else {
    if (table_.empty() && row.peer == "floe")
      fmt::print("# {}{}\n", row.what.op->name, row.what.in_place ? ", in place" : "");
    fmt::print("{}\n", to_text(row));
  }
  std::fflush(stdout);
  table_.push_back(std::move(row));
}

void Report::print_ratios(const char* label, uint64_t from, uint64_t to) const {
  std::vector<double> p50, mean;
  std::string peer;
  for (const Row& row : table_) {
    if (!row.ratio || row.bytes < from || row.bytes > to) continue;
    p50.push_back(row.ratio->p50);
    mean.push_back(row.ratio->mean);
    peer = row.peer;
  }
  if (p50.empty()) return;
  const Summary middle = summarize(p50), average = summarize(mean);
  fmt::print("# {} / floe, {:<18} p50 {:>7.1f} (least {:.1f}), mean {:>7.1f} (least {:.1f})\n", peer, label,
             middle.geometric_mean, middle.least, average.geometric_mean, average.least);
}

void Report::end_of_table() {
  if (!json_ && with_peer_ && !table_.empty()) {
    fmt::print("# Geometric means of the ratios of times:\n");
    print_ratios("up to 16 KiB", 0, 16 << 10);
    print_ratios("to below 1 MiB", (16 << 10) + 1, (1 << 20) - 1);
    print_ratios("from 1 MiB on", 1 << 20, UINT64_MAX);
    print_ratios("all sizes", 0, UINT64_MAX);
    std::fflush(stdout);
  }
  table_.clear();
}

}  // namespace floe::bench
