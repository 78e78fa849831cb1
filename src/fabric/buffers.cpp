#include "fabric/buffers.h"

#include <sys/mman.h>

#include <cerrno>

namespace floe::fabric {

Buffers::~Buffers() {
  for (const Region& region : regions_) ::munmap(region.base, region.bytes);
}

Status Buffers::grow(size_t count, Slot::Use use) {
  if (count == 0) return {};
  const size_t bytes = count * slot_bytes_;
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return system_error(fmt::format("{} MiB of packet buffers", bytes >> 20), errno);
  regions_.push_back({base, bytes});
  for (size_t i = 0; i < count; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.use = use;
    slot.data = static_cast<std::byte*>(base) + i * slot_bytes_;
    free_.push_back(&slot);
  }
  return {};
}

Slot* Buffers::take() {
  if (free_.empty()) return nullptr;
  Slot* const slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace floe::fabric
