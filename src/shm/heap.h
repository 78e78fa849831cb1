// Memory that floe may hand to peers: what floe_mem_alloc gives, and ranges of the caller's that it has
// registered. One per context. all_reduce of allocated memory needs no copies: see mapped_reduce.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "shm/arena.h"

namespace floe {

class Heap {
 public:
  static constexpr size_t kMostRanges = 1 << 16;

  struct Usage {
    uint64_t allocations = 0, allocated_bytes = 0;
    uint64_t registrations = 0, registered_bytes = 0;
  };

  // Allocates from the arena, or says why there is none.
  explicit Heap(Result<std::shared_ptr<Arena>> arena);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();  // frees what is allocated

  // Zeroed, page aligned, and absent from forked children.
  Result<void*> allocate(uint64_t bytes);
  Status free(void* memory);
  // The caller's memory, of which floe changes nothing. It must be mapped and overlap no other range.
  Status add(void* memory, uint64_t bytes);
  Status remove(void* memory);

  Usage usage() const;

 private:
  struct Range {
    uint64_t bytes = 0;  // as asked for
    uint64_t taken = 0;  // of the arena; 0: the caller's
  };
  using Ranges = std::map<uintptr_t, Range>;

  Status check_new(uintptr_t begin, uint64_t bytes) const;      // lock held
  Result<Ranges::iterator> find(void* memory, bool allocated);  // lock held

  void put_back(uint64_t offset, uint64_t bytes);  // lock held

  Result<std::shared_ptr<Arena>> arena_;
  mutable std::mutex mutex_;
  Ranges ranges_;                      // by address, disjoint
  std::map<uint64_t, uint64_t> free_;  // of the arena: bytes by offset; no two of them touch
};

}  // namespace floe
