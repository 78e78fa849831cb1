// floe-bench --tune: every protocol on shared memory beside the others, and the cost model that follows.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contender.h"
#include "fit.h"
#include "report.h"
#include "session.h"

namespace floe::bench {

// floe with one protocol for all sizes that it can carry, each on a communicator of its own; and floe as it
// chooses. Collective.
Result<std::vector<std::unique_ptr<Contender>>> start_protocols(const Session& session);

// Takes the measured lines and says what they mean. On rank 0.
class Tuner {
 public:
  explicit Tuner(const Session& session) : session_(session) {}

  void add(const std::vector<Line>& lines);
  Status print() const;

 private:
  struct State {  // of the cores' placement
    std::vector<Sample> samples;
    std::vector<double> flag_ns;
    std::map<std::string_view, std::map<uint64_t, double>> floe;  // ns by operation and bytes of a block
  };
  void print_state(const std::string& name, const State& state, const CostModel& model) const;

  const Session& session_;
  std::map<std::string, State> states_;
};

}  // namespace floe::bench
