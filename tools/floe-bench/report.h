// What floe-bench prints and writes: a table in nccl-tests' columns or JSON, and CSV, and from that a plot.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "options.h"
#include "placement.h"
#include "ratios.h"
#include "statistics.h"

namespace floe::bench {

// One library's figures of one case.
struct Row {
  std::string library;
  Case what;
  uint64_t bytes = 0;
  uint32_t ranks = 1;
  Statistics us;
  std::optional<double> cpu_us;  // of a call, on a rank: the means
  uint64_t calls = 0;
  uint64_t errors = 0;
  uint32_t blocks = 0;       // measured
  uint32_t blocks_used = 0;  // in the placement state that the figures are of
  std::string state;         // that state; "mixed" if the libraries have none in common
  Placement placement;       // the median of its probes
  struct Ratio {
    double p50, mean, p99;
  };
  std::optional<Ratio> ratio;  // a peer's times over floe's
};

// One library's figures of one size.
struct Line {
  std::string library;
  std::optional<Row> out, in;
};

class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  // Fails at once if what is asked for cannot be written at the end.
  Status begin(uint32_t ranks, const std::string& cpus);
  // A size: floe's line, and the peers'.
  void add(std::vector<Line> lines);
  // Closes the table of one operation and type: how floe compares with the fastest peer.
  void end_of_table();
  Status end();
  uint64_t errors() const { return errors_; }

 private:
  void print_head() const;
  void write(const Row& row);
  void print_summary(const char* label, std::optional<Row> Line::*place) const;

  const Options& options_;
  std::string machine_;
  std::ostringstream csv_;
  std::ofstream file_;
  std::vector<std::vector<Line>> table_;  // by size
  uint64_t errors_ = 0;
};

}  // namespace floe::bench
