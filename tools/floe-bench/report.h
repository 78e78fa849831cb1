// What floe-bench prints: a table in nccl-tests' columns, or one JSON object a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contender.h"
#include "placement.h"
#include "statistics.h"

namespace floe::bench {

struct Row {
  std::string peer;  // whose figures these are
  Case what;
  uint64_t bytes = 0;
  uint32_t ranks = 1;
  Statistics us;
  uint64_t calls = 0;
  uint64_t errors = 0;
  uint32_t blocks = 0;       // measured
  uint32_t blocks_used = 0;  // in the placement state that the figures are of
  std::string state;         // that state; "mixed" if floe and the peer have none in common
  Placement placement;       // the median of its probes
  struct Ratio {
    double p50, mean;
  };
  std::optional<Ratio> ratio;  // a peer's times over floe's
};

class Report {
 public:
  Report(bool json, bool with_peer) : json_(json), with_peer_(with_peer) {}

  void begin(uint32_t ranks, const std::string& cpus) const;
  void add(Row row);
  // Closes the table of one operation and type: geometric means of the ratios.
  void end_of_table();
  uint64_t errors() const { return errors_; }

 private:
  void print_ratios(const char* label, uint64_t from, uint64_t to) const;

  bool json_;
  bool with_peer_;
  std::vector<Row> table_;
  uint64_t errors_ = 0;
};

}  // namespace floe::bench
