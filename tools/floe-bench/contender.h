// A library under measurement. Every rank has one of each, and calls it in the same order as all others.
#pragma once

#include <string_view>

#include "base/status.h"
#include "measure.h"

namespace floe::bench {

class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string_view name() const = 0;
  // Whether its buffers are of its own allocator where Manner::heap asks for that.
  virtual bool has_heap() const { return true; }
  // See measure(). Uses the cores only while it runs.
  virtual Result<Timings> run(const Case& what, uint64_t iterations) = 0;
};

}  // namespace floe::bench
