// The two buffers of a rank, grown when a case needs more.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "measure.h"

namespace floe::bench {

class Buffers {
 public:
  // The library's own allocator, for Manner::heap.
  struct Heap {
    std::function<void*(size_t)> allocate;  // page-aligned or not; nullptr: no memory
    std::function<void(void*)> release;
  };
  explicit Buffers(Heap heap) : heap_(std::move(heap)) {}

  // A call of this case, with floe's forms of in place. Empty: there is not enough memory.
  std::optional<Call> prepare(const Case& what, uint32_t rank, uint32_t ranks);

 private:
  struct Memory {
    std::unique_ptr<void, std::function<void(void*)>> data;
    size_t bytes = 0;
    bool heap = false;
  };
  std::byte* grow(Memory& memory, size_t bytes, const Manner& manner);

  Heap heap_;
  Memory send_, recv_;
};

}  // namespace floe::bench
