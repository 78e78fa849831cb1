// floe's memory, which all ranks of a host can map, as PyTorch's: all_reduce on it copies nothing.
#pragma once

#include <c10/core/Allocator.h>
#include <floe/floe.h>

#include <atomic>

namespace floe_torch {

// Of a context; outlives the tensors that are made of it. Any thread.
class MemoryAllocator final : public c10::Allocator {
 public:
  explicit MemoryAllocator(floe_context_t* context) : context_(context) {}

  // Zeroed. Ordinary memory, with a warning, where floe has none left.
  c10::DataPtr allocate(size_t bytes) override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

  // There is memory that has not been freed.
  bool in_use() const { return pieces_ != 0; }

 private:
  struct Piece;
  static void free(void* piece);

  floe_context_t* const context_;
  std::atomic<size_t> pieces_{0};  // a count alone: relaxed would do
};

}  // namespace floe_torch
