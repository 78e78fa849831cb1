// floe-bench: how fast floe's collectives and kernels are here, and whether their results are right.
#include "driver.h"
#include "kernel.h"
#include "launch.h"
#include "options.h"

int main(int argc, char** argv) {
  using namespace floe::bench;
  const Parsed parsed = parse(argc, argv);
  if (!parsed.options) return parsed.exit_code;
  const Options& options = *parsed.options;
  if (options.kernel) return run_kernels(options);
  return options.launch ? run_local_ranks(options.ranks, argc, argv) : run_rank(options);
}
