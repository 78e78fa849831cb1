#include "tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "floe_contender.h"
#include "shm/explain.h"
#include "statistics.h"

namespace floe::bench {
namespace {

constexpr const char* kVariable = "FLOE_COST_MODEL";

std::string cost_model_of_environment() {
  const char* const text = std::getenv(kVariable);
  return text ? text : "";
}

Surroundings surroundings(const Session& session) {
  Surroundings where;
  where.ranks = session.ranks();
  if (session.share_cpus()) where.ranks_per_cpu = ranks_per_cpu(session.ranks(), session.cpus());
  return where;
}

std::optional<floe::Pattern> pattern_of(const Operation& op) {
  for (const auto& [name, pattern] : kPatterns)
    if (name == op.name) return pattern;
  return std::nullopt;
}

// "small from 8 B, return_line from 2048 B; by floe's choice at most 1.05 times as long, at 1024 B": which
// protocol's time was the shortest. `floe`: the times of its present choices, by bytes of a block.
std::string fastest(const std::vector<Sample>& samples, const floe::Pattern& pattern,
                    const std::map<uint64_t, double>& floe) {
  std::map<uint64_t, const Sample*> best;  // by bytes
  for (const Sample& s : samples) {
    if (!(s.pattern == pattern)) continue;
    const Sample*& now = best[s.block_bytes];
    if (!now || s.ns < now->ns) now = &s;
  }
  std::string text;
  std::optional<Protocol> last;
  double worst = 0;
  uint64_t worst_at = 0;
  for (const auto& [bytes, sample] : best) {
    if (sample->protocol != last)
      text += fmt::format("{}{} from {} B", text.empty() ? "" : ", ", name_of(sample->protocol), bytes);
    last = sample->protocol;
    const auto chosen = floe.find(bytes);
    if (chosen == floe.end() || chosen->second / sample->ns <= worst) continue;
    worst = chosen->second / sample->ns;
    worst_at = bytes;
  }
  if (worst > 0)
    text += fmt::format("; by floe's choice at most {:.2f} times as long, at {} B", worst, worst_at);
  return text;
}

class ProtocolContender final : public Contender {
 public:
  ProtocolContender(Protocol protocol, const Session& session)
      : protocol_(protocol), where_(surroundings(session)) {}

  // The setting is read when the context is created.
  Status start() {
    const std::string before = cost_model_of_environment();
    ::setenv(kVariable, only(protocol_).c_str(), 1);
    Status status = session_.join(fmt::format("bench-{}", name_of(protocol_)));
    ::setenv(kVariable, before.c_str(), 1);
    if (status.ok()) floe_.emplace(session_);
    return status;
  }

  std::string_view name() const override { return name_of(protocol_); }
  Result<Timings> run(const Case& what, uint64_t iterations) override {
    const auto pattern = pattern_of(*what.op);
    const uint64_t bytes = what.count * type_size(what.type);
    if (!pattern || bytes > Cost({}, where_, *pattern).most(protocol_)) return Timings{{}, 0, false};
    return floe_->run(what, iterations);
  }

 private:
  Protocol protocol_;
  Surroundings where_;
  Session session_;
  std::optional<FloeContender> floe_;
};

}  // namespace

Result<std::vector<std::unique_ptr<Contender>>> start_protocols(const Session& session) {
  if (!session.one_host() || session.ranks() < 2)
    return error(FLOE_ERR_ARGUMENT, "--tune: two or more ranks, all on this host, are needed");
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const Protocol protocol : kProtocols) {
    auto contender = std::make_unique<ProtocolContender>(protocol, session);
    FLOE_TRY(contender->start());
    contenders.push_back(std::move(contender));
  }
  contenders.push_back(std::make_unique<FloeContender>(session));
  return contenders;
}

void Tuner::add(const std::vector<Line>& lines) {
  for (const Line& line : lines)
    for (const auto& row : {line.out, line.in}) {
      if (!row) continue;
      const auto pattern = pattern_of(*row->what.op);
      if (!pattern || row->us.p50 <= 0) continue;
      const uint64_t bytes = row->what.count * type_size(row->what.type);
      const double ns = row->us.p50 * 1000;
      State& state = states_[row->state];
      const auto protocol = std::find_if(kProtocols.begin(), kProtocols.end(),
                                         [&](Protocol p) { return name_of(p) == row->library; });
      if (protocol == kProtocols.end())
        state.floe[row->what.op->name][bytes] = ns;
      else
        state.samples.push_back({*protocol, *pattern, bytes, ns});
      if (row->placement.measured()) state.flag_ns.push_back(row->placement.exchange_ns);
    }
}

void Tuner::print_state(const std::string& name, const State& state, const CostModel& model) const {
  const Surroundings where = surroundings(session_);
  Coefficients base = model.at(where);
  if (!state.flag_ns.empty()) base.flag = std::llround(statistics(state.flag_ns).p50 * 1000);
  const Fit result = fit(state.samples, where, base);
  fmt::print("# placement {}: {} times of {} ranks{}\n", name, state.samples.size(), where.ranks,
             where.ranks_per_cpu > 1 ? " on fewer CPUs: only turn is fitted" : "");
  for (const Protocol protocol : kProtocols) {
    const auto at = static_cast<size_t>(protocol);
    fmt::print("#   {:<11} {} times, off by {:.0f} % (root mean square){}\n", name_of(protocol),
               result.samples[at], result.error[at] * 100,
               result.kept[at] ? ": its costs are as before" : "");
  }
  fmt::print("FLOE_COST_MODEL={}\n", result.coefficients.text());
  fmt::print("# with it, by bytes of a rank's block:\n");
  for (const auto& [op, pattern] : kPatterns) {
    std::string_view label = op;
    for (const std::string& line : explain(Cost(result.coefficients, where, pattern))) {
      fmt::print("#   {:<14} {}\n", label, line);
      label = "";
    }
    const auto floe = state.floe.find(op);
    const auto measured = floe == state.floe.end() ? "" : fastest(state.samples, pattern, floe->second);
    if (!measured.empty()) fmt::print("#   {:<14} measured: {}\n", "", measured);
  }
}

Status Tuner::print() const {
  const auto model = CostModel::create(cost_model_of_environment());
  if (!model.ok()) return model.status();
  fmt::print("# The cost model of each placement of the cores that was seen, from the p50 of each line\n");
  for (const auto& [name, state] : states_) print_state(name, state, *model);
  fmt::print(
      "# Set one on all ranks to choose by it. Without, floe takes what was measured for cores with and "
      "without "
      "a shared L3 cache: floe-info shows which\n");
  std::fflush(stdout);
  return {};
}

}  // namespace floe::bench
