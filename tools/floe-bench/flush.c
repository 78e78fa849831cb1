/* floe_bench_flush as a library, for peers in Python. */
#include "flush.h"

__attribute__((visibility("default"))) void flush(const void* data, size_t bytes) {
  floe_bench_flush(data, bytes);
}
