// floe-bench --kernel: the reduction kernels of each instruction set, beside oneDNN's sum.
#pragma once

#include "options.h"

namespace floe::bench {

int run_kernels(const Options& options);

}  // namespace floe::bench
