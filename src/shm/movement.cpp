#include "shm/movement.h"

#include <cstring>

namespace floe {
namespace {

void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

void Movement::keep(uint32_t source, const std::byte* slot, uint64_t begin, uint64_t bytes) const {
  if (bytes == 0) return;
  copy(kept(source) + begin, slot + (args_.pattern.block_each ? self_ * bytes : 0), bytes);
}

void Movement::keep_own(uint64_t begin, uint64_t bytes) const {
  if (bytes == 0) return;
  if (keeps_own()) copy(kept(self_) + begin, sent(self_) + begin, bytes);
}

}  // namespace floe
