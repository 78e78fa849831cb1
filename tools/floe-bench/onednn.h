// oneDNN's `sum` primitive of two buffers, if floe-bench was built with oneDNN.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"

namespace floe::bench {

// dst[i] = a[i] + b[i] on one thread, to be called any number of times; FLOE_ERR_UNSUPPORTED says why not:
// "not built", or no such type in oneDNN.
Result<std::function<void()>> onednn_sum(int type, uint64_t count, void* a, void* b, void* dst);

}  // namespace floe::bench
