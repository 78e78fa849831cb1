// Who am I: rank, size and meeting point, from the environment that a launcher set.
#pragma once

#include <cstdint>
#include <string>

#include "base/settings.h"
#include "base/status.h"

namespace floe {

struct Launch {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::string address;   // MASTER_ADDR, or 127.0.0.1 when all ranks are on this host
  uint16_t port = 0;     // of floe's own store
  std::string launcher;  // "torchrun", "Intel MPI or MPICH", "Open MPI", "Slurm"
};

// Whether any of the variables is set by which launchers tell ranks, or who is one by hand.
bool has_launcher();

// The first launcher of the table in launch.cpp that left its variables here. FLOE_ERR_ENVIRONMENT names
// the variable and its value, or all that was looked for.
Result<Launch> discover_launch(const Settings& settings);

}  // namespace floe
