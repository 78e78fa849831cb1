// floe-info: what floe finds on this machine and how it is set up.
#include <floe/floe.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/settings.h"
#include "reduce/reduce.h"
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

// Whether the environment's values are valid, as a context would find them.
bool check_settings() {
  auto settings = Settings::from_environment();
  Status status = settings.ok() ? set_isa(settings->isa) : settings.status();
  if (!status.ok()) fmt::print(stderr, "floe-info: {}\n", status.message());
  return status.ok();
}

}  // namespace
}  // namespace floe

int main(int argc, char** argv) try {
  CLI::App app("Shows what floe finds on this machine and how it is set up.");
  bool only_settings = false;
  app.add_flag("--settings", only_settings, "Only the settings: name, value, meaning");
  CLI11_PARSE(app, argc, argv);

  bool good = true;
  if (!only_settings) {
    good = floe::print_machine();
    fmt::print("Settings (environment variables)\n");
  }
  floe::print_settings();
  std::fflush(stdout);
  return floe::check_settings() && good ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "floe-info: %s\n", error.what());
  return 1;
}
