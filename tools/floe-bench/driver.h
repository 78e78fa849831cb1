// One rank's run through the matrix of operations, types and sizes.
#pragma once

#include "base/status.h"
#include "options.h"

namespace floe::bench {

// Joins the communicator of the environment and measures. Rank 0 prints. Returns the exit code.
int run_rank(const Options& options);

}  // namespace floe::bench
