#include "fabric/buffers.h"

#include <sys/mman.h>

#include <cerrno>

#include "fabric/endpoint.h"

namespace floe::fabric {

Buffers::~Buffers() {
  for (const Region& region : regions_) ::munmap(region.base, region.bytes);
}

Status Buffers::reserve(size_t count) {
  if (count <= size()) return {};
  const size_t added = count - size(), bytes = added * slot_bytes_;
  const Registrations& registrations = endpoint_.registrations();
  const int pages = registrations.needs_pages() ? MAP_POPULATE : 0;
  void* const base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | pages, -1, 0);
  if (base == MAP_FAILED) return system_error(fmt::format("{} KiB of packet buffers", bytes >> 10), errno);
  regions_.push_back({base, bytes});
  void* descriptor = nullptr;
  if (registrations.needed()) {
    // After a fork this process would write to copies of its pages, and the card go on with the old ones.
    if (::madvise(base, bytes, MADV_DONTFORK) != 0) return system_error("madvise(MADV_DONTFORK)", errno);
    FLOE_TRY(endpoint_.register_memory(base, bytes, &descriptor));
  }
  for (size_t i = 0; i < added; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.use = use_;
    slot.rail = &rail_;
    slot.data = static_cast<std::byte*>(base) + i * slot_bytes_;
    slot.descriptor = descriptor;
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
