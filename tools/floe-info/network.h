// Names, routes, interfaces, ports and providers: what connects this host with others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "boot/launch.h"
#include "findings.h"

namespace floe::info {

struct Interface {
  std::string name;
  std::string address;
  uint32_t mtu = 0;
  int64_t megabits = 0;  // per second; 0: the driver does not say
  bool loopback = false;
};

// Those that are up, an entry for each of their addresses, without link-local ones.
std::vector<Interface> interfaces();

// What the ranks of this job are, as far as variables tell.
struct Job {
  std::optional<Launch> launch;  // none: no launcher, or `problem`
  std::string problem;           // what is wrong with the launcher's variables
  uint32_t local_ranks = 1;      // on this host
  bool several_hosts() const { return launch && launch->size > local_ranks; }
};
Job job_of(const Settings& settings);

// Returns the interface through which this host is reached: of the endpoint that floe would open.
std::optional<Interface> check_network(Findings& findings, const Settings& settings, const Job& job);

}  // namespace floe::info
