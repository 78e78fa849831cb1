#include "memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <memory>

namespace floe_torch {

struct MemoryAllocator::Piece {
  MemoryAllocator* allocator;
  void* memory;
};

c10::DataPtr MemoryAllocator::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
  auto piece = std::make_unique<Piece>(Piece{this, nullptr});
  if (floe_mem_alloc(context_, bytes, &piece->memory) != FLOE_OK) {
    TORCH_WARN("floe: ordinary memory takes the place of its own, which ranks could reduce without a copy: ",
               floe_last_error());
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
  ++pieces_;
  void* const memory = piece->memory;
  return {memory, piece.release(), &MemoryAllocator::free, c10::Device(c10::kCPU)};
}

void MemoryAllocator::free(void* piece) {
  const std::unique_ptr<Piece> owner(static_cast<Piece*>(piece));
  // A forked child has the tensor without the memory, and nothing to free.
  floe_mem_free(owner->allocator->context_, owner->memory);
  --owner->allocator->pieces_;
}

void MemoryAllocator::copy_data(void* destination, const void* source, size_t bytes) const {
  std::memcpy(destination, source, bytes);
}

}  // namespace floe_torch
