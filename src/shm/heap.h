// Memory that floe may hand to peers: what floe_mem_alloc gives, and ranges of the caller's that it has
// registered. One per context. Nothing uses it to save copies yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/fd.h"
#include "base/status.h"

namespace floe {

class Heap {
 public:
  static constexpr size_t kMostRanges = 1 << 16;

  struct Usage {
    uint64_t allocations = 0, allocated_bytes = 0;
    uint64_t registrations = 0, registered_bytes = 0;
  };

  Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();  // frees what is allocated

  // Zeroed, page aligned, in a sealed memfd of its own, and absent from forked children.
  Result<void*> allocate(uint64_t bytes);
  Status free(void* memory);
  // The caller's memory, of which floe changes nothing. It must be mapped and overlap no other range.
  Status add(void* memory, uint64_t bytes);
  Status remove(void* memory);

  Usage usage() const;

 private:
  struct Range {
    uint64_t bytes = 0;  // as asked for
    size_t mapped = 0;   // 0: the caller's
    UniqueFd fd;
  };
  using Ranges = std::map<uintptr_t, Range>;

  Status check_new(uintptr_t begin, uint64_t bytes) const;      // lock held
  Result<Ranges::iterator> find(void* memory, bool allocated);  // lock held

  mutable std::mutex mutex_;
  Ranges ranges_;  // by address, disjoint
};

}  // namespace floe
