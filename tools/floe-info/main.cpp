// floe-info: what floe finds on this machine and how it is set up.
#include <floe/floe.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/settings.h"
#include "findings.h"
#include "host_limits.h"
#include "network.h"
#include "pairs.h"
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

// Rank 0, or a process without a launcher, says all; another rank what is not good, under its name.
void print_findings(const info::Findings& findings, const info::Job& job) {
  const uint32_t rank = job.launch ? job.launch->rank : 0;
  const std::string prefix = rank == 0 ? "  " : fmt::format("rank {} ", rank);
  for (const info::Finding& finding : findings.list()) {
    const bool good = finding.verdict == info::Verdict::kGood;
    if (rank != 0 && good) continue;
    const std::string_view verdict = good ? "ok" : finding.verdict == info::Verdict::kNote ? "note" : "WRONG";
    fmt::print("{}{:<5}  {:<13}  {}\n", prefix, verdict, finding.topic, finding.text);
    if (!finding.advice.empty()) fmt::print("{}{:<5}  {:<13}  -> {}\n", prefix, "", "", finding.advice);
  }
  std::fflush(stdout);
}

// Whether everything will work.
bool check(const Settings& settings, double seconds) {
  const info::Job job = info::job_of(settings);
  info::Findings findings;
  info::check_limits(findings, job.local_ranks, settings.shm, settings.provider);
  const auto used = info::check_network(findings, settings, job);
  if (job.launch && job.launch->size > 1)
    info::check_pairs(findings, job, used, seconds);
  else if (!job.problem.empty())
    findings.wrong("ranks", job.problem, "");
  else if (!job.launch)
    findings.good("ranks", "no launcher: start this with torchrun, mpirun or srun to measure between them");
  print_findings(findings, job);
  return findings.all_works();
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
  bool only_settings = false, only_check = false;
  double seconds = 2;
  std::vector<uint32_t> ranks;
  app.add_flag("--settings", only_settings, "Only the settings: name, value, meaning");
  app.add_option("--ranks", ranks,
                 "Numbers of ranks for which protocols are shown; default 2, 4, 8, ..., all CPUs")
      ->delimiter(',')
      ->check(CLI::Range(2, 1024));
  app.add_flag(
      "--check", only_check,
      "Names, routes, interfaces, ports, providers and limits: what to change, and a failure if something "
      "will not work. Under a launcher also the time and speed between each pair of ranks");
  app.add_option("--seconds", seconds, "How long --check measures between ranks")
      ->check(CLI::Range(0.1, 600.0));
  CLI11_PARSE(app, argc, argv);

  if (only_check) {
    if (!floe::check_settings()) return 1;
    return floe::check(*floe::Settings::from_environment(), seconds) ? 0 : 1;
  }
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
