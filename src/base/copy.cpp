#include "base/copy.h"

#include <algorithm>

namespace floe {

void copy_in_pieces(void* to, const void* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kCopyPiece) {
    const uint64_t now = std::min(bytes - at, kCopyPiece);
    std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, now);
  }
}

}  // namespace floe
