// The one registry of settings: every FLOE_* environment variable, its type, default and one line of
// help. Parsing, `floe-info --settings` and the README's table come from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace floe {

struct SettingInfo {
  std::string_view name;      // "FLOE_SHM"
  std::string_view values;    // "on, off", "1..." or free text such as "a CPU list"
  std::string_view fallback;  // default, as text
  std::string_view help;
};

std::span<const SettingInfo> setting_table();

// FLOE_PORT_RANGE.
struct PortRange {
  uint16_t first = 0, last = 0;  // 0: any

  // All of them, from anywhere on: ranks that look at the same time find different ones.
  std::vector<uint16_t> ports(uint64_t random) const;
  std::string to_text() const;
};

struct SettingValue {
  std::string text;
  uint32_t source = FLOE_SETTING_DEFAULT;
};

// Values of all settings, read once from the environment when a context is created.
struct Settings {
  std::string log;                        // FLOE_LOG
  bool shm = true;                        // FLOE_SHM
  std::string provider;                   // FLOE_PROVIDER, "" = choose
  std::string interface;                  // FLOE_IFNAME, "" = choose
  uint32_t rails = 1;                     // FLOE_RAILS
  bool always_registers = false;          // FLOE_FABRIC_MR
  floe_type_t wire_type = FLOE_FLOAT32;   // FLOE_WIRE_DTYPE
  std::string isa;                        // FLOE_ISA, "" = best
  std::string cost_model;                 // FLOE_COST_MODEL, "" = what was measured: shm/cost_model.h
  uint32_t workers = 0;                   // FLOE_WORKERS
  std::vector<unsigned> worker_affinity;  // FLOE_WORKER_AFFINITY, empty = any allowed CPU
  uint64_t timeout_ms = 0;                // FLOE_TIMEOUT_MS
  uint16_t store_port = 0;                // FLOE_STORE_PORT, 0 = MASTER_PORT
  PortRange port_range;                   // FLOE_PORT_RANGE
  std::string secret;                     // FLOE_SECRET or what is in FLOE_SECRET_FILE, "" = none
  std::vector<SettingValue> values;       // of all, as text, in the order of the table

  // FLOE_ERR_ENVIRONMENT names the variable, its value and what is allowed; an unknown FLOE_* variable
  // is a warning.
  static Result<Settings> from_environment();
  // The caller's choice for this context goes before FLOE_WORKERS.
  void set_workers(uint32_t count);
};

// 1 to 65535.
std::optional<uint16_t> parse_port(std::string_view text);

// "0,2-4" -> {0, 2, 3, 4}.
Result<std::vector<unsigned>> parse_cpu_list(std::string_view text);
// The reverse, of ascending CPUs.
std::string format_cpu_list(std::span<const unsigned> cpus);

}  // namespace floe
