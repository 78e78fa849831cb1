// What all tests of this folder use.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/clock.h"

namespace floe::test {

// For what must happen: far longer than it takes, so that only a hang reaches it.
inline Deadline soon() { return Deadline::in_ms(30'000); }

inline size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count - 1;  // without the one that counts
}

}  // namespace floe::test
