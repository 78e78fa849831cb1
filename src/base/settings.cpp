#include "base/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/log.h"

extern char** environ;

namespace floe {
namespace {

constexpr std::array kTable = {
    SettingInfo{"FLOE_LOG", "error, warn, info, debug, trace", "warn", "What is written to stderr."},
    SettingInfo{"FLOE_SHM", "on, off", "on", "Shared memory between ranks of one host; off: libfabric."},
    SettingInfo{"FLOE_PROVIDER", "a libfabric provider, such as tcp or shm", "",
                "The provider between hosts; empty: the fastest there is."},
    SettingInfo{"FLOE_IFNAME", "names or their beginnings: eth,ib0; whole: =eth0; all but: ^docker", "",
                "Network interfaces, as NCCL_SOCKET_IFNAME; empty: the one that routes to MASTER_ADDR."},
    SettingInfo{"FLOE_RAILS", "1-8", "1",
                "Network interfaces of a rank that share its data; the same on all ranks."},
    SettingInfo{"FLOE_FABRIC_MR", "auto, always", "auto",
                "Memory registration; always: with providers, too, that need none, to test it."},
    SettingInfo{"FLOE_WIRE_DTYPE", "fp32, bf16", "fp32",
                "What sums of float32 of all_reduce travel as between hosts; bf16: half the bytes."},
    SettingInfo{"FLOE_ISA", "an instruction set that floe-bench --kernel lists", "",
                "Caps the reduction kernels; empty: the best of this machine."},
    SettingInfo{"FLOE_COST_MODEL", "name=ns,name=ns,... as floe-bench --tune prints them", "",
                "Costs by which protocols are chosen; the same on all ranks; empty: floe's own."},
    SettingInfo{"FLOE_WORKERS", "0, 1", "0", "Threads that progress operations nobody waits for."},
    SettingInfo{"FLOE_WORKER_AFFINITY", "a CPU list such as 0,2-4", "",
                "CPUs for workers; empty: any CPU the process may use."},
    SettingInfo{"FLOE_TIMEOUT_MS", "milliseconds, 1 or more", "300000",
                "Deadline of creation and of each operation, when the caller gives none."},
    SettingInfo{"FLOE_STORE_PORT", "1-65535", "",
                "Port of floe's own TCP store; empty: MASTER_PORT (under torchrun MASTER_PORT + 1)."},
    SettingInfo{"FLOE_PORT_RANGE", "two ports such as 20000-20100", "",
                "Ports between hosts, two for each rank of a host; empty: any."},
    SettingInfo{"FLOE_SECRET", "a text, the same on all ranks", "",
                "Hosts prove to each other that they know it; empty: a key from the store."},
    SettingInfo{"FLOE_SECRET_FILE", "a path", "",
                "A file with that text, for those who should not see it among the variables."},
};

std::string value_of(std::string_view name) {
  const char* text = std::getenv(std::string(name).c_str());
  if (text && *text) return text;  // set to nothing is not set
  const auto* row = std::find_if(kTable.begin(), kTable.end(), [&](const auto& s) { return s.name == name; });
  return std::string(row->fallback);
}

Status wrong(std::string_view name, std::string_view value) {
  const auto* row = std::find_if(kTable.begin(), kTable.end(), [&](const auto& s) { return s.name == name; });
  return error(FLOE_ERR_ENVIRONMENT, "{}='{}' is not valid: use {}", name, value, row->values);
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<PortRange> parse_port_range(std::string_view text) {
  if (text.empty()) return PortRange();
  const size_t dash = text.find('-');
  if (dash == text.npos) return std::nullopt;
  const auto first = parse_port(text.substr(0, dash)), last = parse_port(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

// The text in `path` without a newline at its end.
Result<std::string> read_secret_file(const std::string& path) {
  constexpr size_t kMost = 4096;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMost + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad())
    return system_error(fmt::format("reading FLOE_SECRET_FILE='{}'", path), errno);
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.empty() || text.size() > kMost)
    return error(FLOE_ERR_ENVIRONMENT, "FLOE_SECRET_FILE='{}' must hold 1 to {} bytes", path, kMost);
  return text;
}

Result<std::string> read_secret() {
  const std::string secret = value_of("FLOE_SECRET"), path = value_of("FLOE_SECRET_FILE");
  if (path.empty()) return secret;
  if (!secret.empty())
    return error(FLOE_ERR_ENVIRONMENT, "FLOE_SECRET and FLOE_SECRET_FILE are both set: use one of them");
  return read_secret_file(path);
}

Status read_fabric(Settings* s) {
  s->provider = value_of("FLOE_PROVIDER");
  s->interface = value_of("FLOE_IFNAME");
  const std::string rails = value_of("FLOE_RAILS");
  constexpr uint64_t kMostRails = 8;
  const auto count = parse_number(rails);
  if (!count || *count == 0 || *count > kMostRails) return wrong("FLOE_RAILS", rails);
  s->rails = static_cast<uint32_t>(*count);
  const std::string registration = value_of("FLOE_FABRIC_MR");
  if (registration != "auto" && registration != "always") return wrong("FLOE_FABRIC_MR", registration);
  s->always_registers = registration == "always";
  return {};
}

void warn_about_unknown_variables() {
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("FLOE_")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    const bool known =
        std::any_of(kTable.begin(), kTable.end(), [&](const auto& s) { return s.name == name; });
    // What tools/dev and floe-bench read.
    const bool of_tools = name == "FLOE_TORCH" || name == "FLOE_PYTHON" || name == "FLOE_LIB_DIR";
    if (!known && !of_tools) log(LogLevel::kWarn, "{} is not a setting of floe: ignored", name);
  }
}

}  // namespace

std::span<const SettingInfo> setting_table() { return kTable; }

std::optional<uint16_t> parse_port(std::string_view text) {
  const auto number = parse_number(text);
  if (!number || *number == 0 || *number > 65535) return std::nullopt;
  return static_cast<uint16_t>(*number);
}

std::vector<uint16_t> PortRange::ports(uint64_t random) const {
  const size_t count = size_t{last} - first + 1;
  std::vector<uint16_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<uint16_t>(first + (random + i) % count);
  return all;
}

std::string PortRange::to_text() const { return first == 0 ? "" : fmt::format("{}-{}", first, last); }

Result<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
  constexpr uint64_t kMaxCpu = 65535;
  std::vector<unsigned> cpus;
  if (text.ends_with(','))
    return error(FLOE_ERR_ENVIRONMENT, "a CPU is missing after the last comma of '{}'", text);
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t dash = item.find('-');
    const auto first = parse_number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(item.substr(dash + 1));
    // The sum bounds what overlapping ranges would multiply.
    if (!first || !last || *first > *last || *last > kMaxCpu || cpus.size() + (*last - *first) > kMaxCpu)
      return error(FLOE_ERR_ENVIRONMENT, "'{}' is not a CPU or a range of CPUs", item);
    for (uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<unsigned>(cpu));
  }
  return cpus;
}

std::string format_cpu_list(std::span<const unsigned> cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last != i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

void Settings::set_workers(uint32_t count) {
  workers = count;
  for (size_t i = 0; i < values.size(); ++i)
    if (kTable[i].name == "FLOE_WORKERS") values[i] = {std::to_string(count), FLOE_SETTING_CALLER};
}

Result<Settings> Settings::from_environment() {
  Settings s;
  s.log = value_of("FLOE_LOG");
  constexpr std::array<std::string_view, 5> levels = {"error", "warn", "info", "debug", "trace"};
  if (std::find(levels.begin(), levels.end(), s.log) == levels.end()) return wrong("FLOE_LOG", s.log);

  const std::string shm = value_of("FLOE_SHM");
  if (shm != "on" && shm != "off") return wrong("FLOE_SHM", shm);
  s.shm = shm == "on";

  FLOE_TRY(read_fabric(&s));
  s.isa = value_of("FLOE_ISA");
  const std::string wire = value_of("FLOE_WIRE_DTYPE");
  if (wire != "fp32" && wire != "bf16") return wrong("FLOE_WIRE_DTYPE", wire);
  s.wire_type = wire == "bf16" ? FLOE_BFLOAT16 : FLOE_FLOAT32;
  s.cost_model = value_of("FLOE_COST_MODEL");

  const std::string workers = value_of("FLOE_WORKERS");
  if (workers != "0" && workers != "1") return wrong("FLOE_WORKERS", workers);
  s.workers = workers == "1" ? 1 : 0;

  const std::string affinity = value_of("FLOE_WORKER_AFFINITY");
  auto cpus = parse_cpu_list(affinity);
  if (!cpus.ok()) return wrong("FLOE_WORKER_AFFINITY", affinity);
  s.worker_affinity = *cpus;

  const std::string timeout = value_of("FLOE_TIMEOUT_MS");
  const auto ms = parse_number(timeout);
  if (!ms || *ms == 0) return wrong("FLOE_TIMEOUT_MS", timeout);
  s.timeout_ms = *ms;

  const std::string port = value_of("FLOE_STORE_PORT");
  if (!port.empty()) {
    const auto number = parse_port(port);
    if (!number) return wrong("FLOE_STORE_PORT", port);
    s.store_port = *number;
  }
  const auto ports = parse_port_range(value_of("FLOE_PORT_RANGE"));
  if (!ports) return wrong("FLOE_PORT_RANGE", value_of("FLOE_PORT_RANGE"));
  s.port_range = *ports;

  auto secret = read_secret();
  if (!secret.ok()) return secret.status();
  s.secret = std::move(*secret);

  for (const SettingInfo& row : kTable) {
    const char* text = std::getenv(std::string(row.name).c_str());
    const uint32_t source = text && *text ? FLOE_SETTING_ENVIRONMENT : FLOE_SETTING_DEFAULT;
    const bool hide = row.name == "FLOE_SECRET" && source == FLOE_SETTING_ENVIRONMENT;
    s.values.push_back({hide ? "(hidden)" : value_of(row.name), source});
  }

  static const bool warned = (warn_about_unknown_variables(), true);
  (void)warned;
  return s;
}

}  // namespace floe
