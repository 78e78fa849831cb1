#include "errors.h"

#include <cstdint>

namespace floe::gloo_transport {

void throw_outside(size_t offset, size_t bytes, size_t size) {
  const std::string amount = bytes == SIZE_MAX ? "all" : std::to_string(bytes);
  throw ::gloo::InvalidOperationException("floe: " + amount + " bytes at offset " + std::to_string(offset) +
                                          " are not inside a buffer of " + std::to_string(size));
}

}  // namespace floe::gloo_transport
