#include "boot/random.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/log.h"

namespace floe {

void fill_random(std::span<unsigned char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (errno != EINTR) {
      // Every kernel that floe runs on has it; a guessable token would be worse than no start.
      log(LogLevel::kError, "getrandom failed (errno {})", errno);
      std::abort();
    }
  }
}

uint64_t random_u64() {
  unsigned char bytes[8];
  fill_random(bytes);
  uint64_t value = 0;
  for (const unsigned char byte : bytes) value = value << 8 | byte;
  return value;
}

std::string random_hex(size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  fill_random(raw);
  return fmt::format("{:02x}", fmt::join(raw, ""));
}

}  // namespace floe
