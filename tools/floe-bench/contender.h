// A library under measurement. Every rank has one of each, and calls it in the same order as all others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "operations.h"

namespace floe::bench {

struct Case {
  const Operation* op = nullptr;
  floe_type_t type = FLOE_FLOAT32;
  uint64_t count = 0;  // elements of one rank's part
  bool in_place = false;
};

struct Timings {
  std::vector<double> us;  // one an iteration, on this rank
  uint64_t errors = 0;     // wrong elements on this rank
};

class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string_view name() const = 0;
  // `iterations` calls with new data each, every one timed alone; the results of the first and the last are
  // checked. Uses the cores only while it runs.
  virtual Result<Timings> run(const Case& what, uint64_t iterations) = 0;
};

}  // namespace floe::bench
