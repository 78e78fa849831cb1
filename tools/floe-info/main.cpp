// floe-info: what floe finds on this machine and how it is set up.
#include <floe/floe.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/settings.h"
#include "reduce/reduce.h"
#include "shm/cost_model.h"
#include "shm/explain.h"
#include "topo/spread.h"
#include "topo/topology.h"

namespace floe {
namespace {

void print_settings() {
  size_t width = 0;
  for (const auto& setting : setting_table()) width = std::max(width, setting.name.size());
  for (const auto& setting : setting_table()) {
    const char* set = std::getenv(std::string(setting.name).c_str());
    const std::string_view value = set ? set : setting.fallback;
    fmt::print("  {:<{}}  {:<10} {}\n", setting.name, width,
               fmt::format("{}{}", value.empty() ? "(empty)" : value, set ? " (set)" : ""), setting.help);
    fmt::print("  {:<{}}  {:<10} Values: {}.\n", "", width, "", setting.values);
  }
}

// Whether everything could be found out.
bool print_machine() {
  const uint32_t version = floe_version();
  fmt::print("floe {}.{}.{}\n", version / 10000, version / 100 % 100, version % 100);
  const auto machine = topology();
  fmt::print("  machine       {}\n", machine.ok() ? machine->describe() : machine.status().message());
  fmt::print("  allowed CPUs  {}\n", fmt::join(allowed_cpus(), ", "));
  fmt::print("  kernels       {} (best first)\n", fmt::join(isa_names(), ", "));
  return machine.ok();
}

// Ranks on a CPU each, in order, as long as there are enough.
Surroundings surroundings(uint32_t ranks) {
  const auto cpus = allowed_cpus();
  const Spread spread = spread_of(std::span(cpus).first(std::min<size_t>(ranks, cpus.size())));
  return {ranks, ranks_per_cpu(ranks, cpus.size()), spread.one_cache, spread.memory_percent};
}

// 2, 4, 8, ... and all CPUs.
std::vector<uint32_t> usual_ranks() {
  const auto cpus = std::max<uint32_t>(2, static_cast<uint32_t>(allowed_cpus().size()));
  std::vector<uint32_t> list;
  for (uint32_t ranks = 2; ranks < cpus; ranks *= 2) list.push_back(ranks);
  list.push_back(cpus);
  return list;
}

// What carries each collective of equal blocks on shared memory. A wrong FLOE_COST_MODEL is reported with the
// settings.
void print_protocols(const std::vector<uint32_t>& ranks) {
  const char* const given = std::getenv("FLOE_COST_MODEL");
  const auto model = CostModel::create(given ? given : "");
  if (!model.ok()) return;
  for (const uint32_t count : ranks) {
    const Surroundings where = surroundings(count);
    const Coefficients coefficients = model->at(where);
    fmt::print("Protocols for {}, by bytes of a rank's block (and what the model expects)\n", explain(where));
    fmt::print("  model (ns)      {}\n", coefficients.text());
    for (const auto& [name, pattern] : kPatterns) {
      std::string_view label = name;
      for (const std::string& line : explain(Cost(coefficients, where, pattern))) {
        fmt::print("  {:<14}  {}\n", label, line);
        label = "";
      }
    }
  }
}

// Whether the environment's values are valid, as a context would find them.
bool check_settings() {
  auto settings = Settings::from_environment();
  Status status = settings.ok() ? set_isa(settings->isa) : settings.status();
  if (status.ok()) status = CostModel::create(settings->cost_model).status();
  if (!status.ok()) fmt::print(stderr, "floe-info: {}\n", status.message());
  return status.ok();
}

}  // namespace
}  // namespace floe

int main(int argc, char** argv) try {
  CLI::App app("Shows what floe finds on this machine and how it is set up.");
  bool only_settings = false;
  std::vector<uint32_t> ranks;
  app.add_flag("--settings", only_settings, "Only the settings: name, value, meaning");
  app.add_option("--ranks", ranks,
                 "Numbers of ranks for which protocols are shown; default 2, 4, 8, ..., all CPUs")
      ->delimiter(',')
      ->check(CLI::Range(2, 1024));
  CLI11_PARSE(app, argc, argv);

  bool good = true;
  if (!only_settings) {
    good = floe::print_machine();
    floe::print_protocols(ranks.empty() ? floe::usual_ranks() : ranks);
    fmt::print("Settings (environment variables)\n");
  }
  floe::print_settings();
  std::fflush(stdout);
  return floe::check_settings() && good ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "floe-info: %s\n", error.what());
  return 1;
}
