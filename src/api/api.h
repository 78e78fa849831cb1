// What the entry points share: the handles, this thread's last error, and the wall that no exception
// passes.
#pragma once

#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "shm/heap.h"

struct floe_context {
  std::shared_ptr<floe::Engine> engine;
  floe::Heap heap{engine->arena()};
  size_t creating = 0;  // communicators that are not among the engine's groups yet; under its lock
};

struct floe_comm {
  std::unique_ptr<floe::Communicator> comm;
};

struct floe_request {
  std::shared_ptr<floe::Engine> engine;
  std::shared_ptr<floe::Operation> operation;
};

namespace floe::api {

// Remembers an error's message for floe_last_error() and returns its code.
floe_status_t report_error(const Status& status);
inline floe_status_t report(const Status& status) { return status.ok() ? FLOE_OK : report_error(status); }

// Runs an entry point's body, which returns a Status or a floe_status_t already reported.
template <class F>
floe_status_t entry(F&& body) noexcept {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<F>, floe_status_t>)
      return body();
    else
      return report(body());
  } catch (const std::bad_alloc&) {
    return report(out_of_memory());
  } catch (const std::exception& e) {
    return report(error(FLOE_ERR_INTERNAL, "unexpected exception: {}", e.what()));
  } catch (...) {
    return report(Status(FLOE_ERR_INTERNAL, "unexpected exception"));
  }
}

inline const Engine& engine_of(const floe_context_t& handle) { return *handle.engine; }
inline const Engine& engine_of(const floe_comm_t& handle) { return *handle.comm->engine(); }
inline const Engine& engine_of(const floe_request_t& handle) { return *handle.engine; }

Status bad_handle(const void* handle, std::string_view name);
// A handle must be non-NULL and of this process.
template <class Handle>
Status check_handle(const Handle* handle, std::string_view name) {
  if (!handle || engine_of(*handle).forked()) return bad_handle(handle, name);
  return {};
}

// An entry point that starts something on `comm`, which all its ranks must do: if one can't for lack of
// memory, at whatever point, that ends the communicator.
template <class F>
floe_status_t operation(floe_comm_t* comm, F&& body) noexcept {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    try {
      return body(*comm->comm);
    } catch (const std::bad_alloc&) {
      comm->comm->out_of_memory();
      throw;
    }
  });
}

// A size-prefixed struct: at least `oldest` bytes, the size that the first release had.
Status check_struct(uint32_t struct_size, size_t oldest, std::string_view name);

}  // namespace floe::api
