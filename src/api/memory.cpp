// floe_mem_*.
#include "api/api.h"

using namespace floe;
using namespace floe::api;

namespace {

Status check_range(const void* memory, uint64_t bytes) {
  if (!memory) return {FLOE_ERR_ARGUMENT, "memory is NULL"};
  if (bytes == 0) return {FLOE_ERR_ARGUMENT, "bytes is 0"};
  return {};
}

}  // namespace

extern "C" {

floe_status_t floe_mem_alloc(floe_context_t* context, uint64_t bytes, void** memory) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    FLOE_TRY(check_range(memory, bytes));
    auto made = context->heap.allocate(bytes);
    if (!made.ok()) return made.status();
    *memory = *made;
    return {};
  });
}

floe_status_t floe_mem_free(floe_context_t* context, void* memory) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    return memory ? context->heap.free(memory) : Status();
  });
}

floe_status_t floe_mem_register(floe_context_t* context, void* memory, uint64_t bytes) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    FLOE_TRY(check_range(memory, bytes));
    return context->heap.add(memory, bytes);
  });
}

floe_status_t floe_mem_unregister(floe_context_t* context, void* memory) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    return context->heap.remove(memory);
  });
}

}  // extern "C"
