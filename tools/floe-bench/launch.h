// Starts the ranks of a local run: this program again, once for each, with the environment of a launcher.
#pragma once

#include <cstdint>

namespace floe::bench {

// Runs argv with --join on `ranks` processes, each on a CPU of its own if there are enough. Returns the
// exit code of the whole: 0 if every rank's is. The first rank that fails ends the others, after a moment
// in which they can say what they saw.
int run_local_ranks(uint32_t ranks, int argc, char** argv);

}  // namespace floe::bench
