#include "boot/launch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

namespace floe {
namespace {

constexpr uint16_t kDefaultPort = 29500;  // PyTorch's
constexpr const char* kNone = nullptr;

struct Launcher {
  std::string_view name;
  const char* rank;
  const char* size;
  // All ranks are on this host if `local_size` equals `size`, or if one of `nodes` is 1.
  const char* local_size;
  std::array<const char*, 3> nodes;
};

// In order of preference: who sets RANK and WORLD_SIZE, often by hand on top of another launcher, means them;
// mpirun often runs inside a Slurm allocation.
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {}},
    {"Intel MPI or MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {}},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", {}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     kNone,
     {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
};

std::optional<std::string_view> variable(const char* name) {
  const char* value = name ? std::getenv(name) : nullptr;
  return value ? std::optional<std::string_view>(value) : std::nullopt;
}

template <class... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return error(FLOE_ERR_ENVIRONMENT, format, std::forward<Args>(args)...);
}

Result<uint64_t> number_in(const char* name, uint64_t lowest, uint64_t highest) {
  const std::string_view text = *variable(name);
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < lowest || value > highest)
    return wrong("{}='{}' is not a whole number from {} to {}", name, text, lowest, highest);
  return value;
}

bool equals_number(const char* name, uint64_t expected) {
  const auto text = variable(name);
  return text && *text == std::to_string(expected);
}

bool all_local(const Launcher& launcher, uint64_t size) {
  if (size == 1 || equals_number(launcher.local_size, size)) return true;
  for (const char* nodes : launcher.nodes)
    if (variable(nodes)) return equals_number(nodes, 1);  // the first that is set counts
  return false;
}

Result<const Launcher*> find_launcher() {
  std::string looked_for;
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = variable(launcher.rank), size = variable(launcher.size);
    if (rank && size) return &launcher;
    // Half a pair is a mistake to report: the next launcher might be a batch shell that thinks it is alone.
    if (rank) return wrong("{}='{}' is set, but {} is not: set both", launcher.rank, *rank, launcher.size);
    if (size) return wrong("{}='{}' is set, but {} is not: set both", launcher.size, *size, launcher.rank);
    looked_for += fmt::format("{}{} and {} ({})", looked_for.empty() ? "" : ", ", launcher.rank,
                              launcher.size, launcher.name);
  }
  return wrong(
      "no launcher has set this process's rank: looked for {}. Start the ranks with one of these, or set "
      "RANK, "
      "WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
      looked_for);
}

Result<uint16_t> find_port(const Settings& settings) {
  if (settings.store_port != 0) return settings.store_port;
  if (!variable("MASTER_PORT")) return kDefaultPort;
  const auto port = number_in("MASTER_PORT", 1, 65535);
  if (!port.ok()) return port.status();
  // torchrun's agent serves its own store at MASTER_PORT for as long as the ranks run.
  const bool taken = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (taken && *port == 65535)
    return wrong(
        "MASTER_PORT='65535' is torchrun's own, and the next port does not exist: set FLOE_STORE_PORT");
  return static_cast<uint16_t>(*port + (taken ? 1 : 0));
}

}  // namespace

bool has_launcher() {
  return std::any_of(std::begin(kLaunchers), std::end(kLaunchers), [](const Launcher& launcher) {
    return variable(launcher.rank) || variable(launcher.size);
  });
}

Result<Launch> discover_launch(const Settings& settings) {
  const auto found = find_launcher();
  if (!found.ok()) return found.status();
  const Launcher& launcher = **found;

  const auto size = number_in(launcher.size, 1, std::numeric_limits<uint32_t>::max());
  if (!size.ok()) return size.status();
  const auto rank = number_in(launcher.rank, 0, *size - 1);
  if (!rank.ok()) return rank.status().in(fmt::format("{}='{}'", launcher.size, *size));
  const auto port = find_port(settings);
  if (!port.ok()) return port.status();

  Launch launch;
  launch.rank = static_cast<uint32_t>(*rank);
  launch.size = static_cast<uint32_t>(*size);
  launch.port = *port;
  launch.launcher = launcher.name;
  launch.address = variable("MASTER_ADDR").value_or("");
  if (launch.address.empty() && all_local(launcher, *size)) launch.address = "127.0.0.1";
  if (launch.address.empty())
    return wrong(
        "MASTER_ADDR is not set, and {} does not say that all {} ranks are on this host: set MASTER_ADDR to "
        "the "
        "address of rank 0's host, the same on all ranks",
        launcher.name, *size);
  return launch;
}

}  // namespace floe
