// The environment, which launchers and people write: settings, rank, size, address.
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdlib>
#include <string>

#include "base/settings.h"
#include "boot/launch.h"

namespace {

constexpr std::array kLaunchers = {"RANK",
                                   "WORLD_SIZE",
                                   "LOCAL_WORLD_SIZE",
                                   "MASTER_ADDR",
                                   "MASTER_PORT",
                                   "TORCHELASTIC_USE_AGENT_STORE",
                                   "PMI_RANK",
                                   "PMI_SIZE",
                                   "MPI_LOCALNRANKS",
                                   "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_SIZE",
                                   "SLURM_PROCID",
                                   "SLURM_NTASKS",
                                   "SLURM_STEP_NUM_NODES",
                                   "SLURM_NNODES",
                                   "SLURM_JOB_NUM_NODES"};

std::vector<std::string> all_names() {
  std::vector<std::string> names(kLaunchers.begin(), kLaunchers.end());
  for (const auto& row : floe::setting_table()) names.emplace_back(row.name);
  return names;
}

std::string some_value(FuzzedDataProvider& input) {
  if (input.ConsumeBool()) return std::to_string(input.ConsumeIntegralInRange<uint64_t>(0, 70'000));
  std::string text = input.ConsumeRandomLengthString(64);
  return text.substr(0, text.find('\0'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::string> names = all_names();
  FuzzedDataProvider input(data, size);
  for (const std::string& name : names) ::unsetenv(name.c_str());
  while (input.remaining_bytes() != 0)
    ::setenv(input.PickValueInArray(kLaunchers), some_value(input).c_str(), 1),
        ::setenv(names[input.ConsumeIntegralInRange<size_t>(0, names.size() - 1)].c_str(),
                 some_value(input).c_str(), 1);
  const auto settings = floe::Settings::from_environment();
  if (!settings.ok()) {
    if (settings.status().message().find("FLOE_") == std::string::npos)
      __builtin_trap();  // which one is wrong
    return 0;
  }
  if (settings->timeout_ms == 0 || settings->values.size() != floe::setting_table().size()) __builtin_trap();
  const auto launch = floe::discover_launch(*settings);
  if (!launch.ok()) return 0;
  if (launch->rank >= launch->size || launch->port == 0 || launch->address.empty()) __builtin_trap();
  return 0;
}
