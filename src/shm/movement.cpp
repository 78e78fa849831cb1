#include "shm/movement.h"

#include "base/copy.h"

namespace floe {

void Movement::ordinary(std::byte* to, const std::byte* from, uint64_t bytes) { copy_bytes(to, from, bytes); }

void Movement::keep_own(uint64_t begin, uint64_t bytes, Copy& copy) const {
  if (bytes == 0 || !keeps_own() || kept(self_) == sent(self_)) return;
  copy(kept(self_) + begin, sent(self_) + begin, bytes);
}

}  // namespace floe
