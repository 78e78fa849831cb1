// floe_comm_*.
#include <algorithm>
#include <cstdlib>

#include "api/api.h"
#include "boot/launch.h"
#include "boot/tcp_store.h"

using namespace floe;
using namespace floe::api;

namespace {

constexpr size_t kMaxName = 63;

Status check_name(const std::string& name) {
  const bool printable =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c < 127; });
  if (name.empty() || name.size() > kMaxName || !printable)
    return error(FLOE_ERR_ARGUMENT, "a communicator's name has 1 to {} printable characters without spaces",
                 kMaxName);
  return {};
}

// The fields of `config` but rank and size.
Result<WireUpConfig> read_config(const floe_comm_config_t* config, const Settings& settings) {
  WireUpConfig result;
  result.name = "world";
  result.timeout_ms = settings.timeout_ms;
  const char* const master = std::getenv("MASTER_ADDR");
  result.route_to = master ? master : "";
  if (!config) return result;
  FLOE_TRY(check_struct(config->struct_size, sizeof(floe_comm_config_t), "floe_comm_config_t"));
  if (config->name) result.name = config->name;
  if (config->timeout_ms != 0) result.timeout_ms = config->timeout_ms;
  FLOE_TRY(check_name(result.name));
  return result;
}

Status check_rank(uint32_t rank, uint32_t size) {
  constexpr uint32_t kMaxRanks = 1 << 16;
  if (size == 0 || size > kMaxRanks)
    return error(FLOE_ERR_ARGUMENT, "size is {}: use 1 to {}", size, kMaxRanks);
  if (rank >= size) return error(FLOE_ERR_ARGUMENT, "rank is {}: it must be less than size, {}", rank, size);
  return {};
}

// The context can't be destroyed as long as this lives, which another thread might try: from before a
// creation waits for other ranks until its communicator is one of the engine's groups, or has failed.
class Creating {
 public:
  explicit Creating(floe_context_t* context) : context_(*context) {
    const std::lock_guard guard(context_.engine->lock());
    ++context_.creating;
  }
  ~Creating() {
    const std::shared_ptr<Engine> engine = context_.engine;  // unlocked when the context may be gone
    const std::lock_guard guard(engine->lock());
    --context_.creating;
  }
  Creating(const Creating&) = delete;
  Creating& operator=(const Creating&) = delete;

 private:
  floe_context_t& context_;
};

Status create(floe_context_t* context, const WireUpConfig& config, Store* store, floe_comm_t** comm) {
  FLOE_TRY(check_rank(config.rank, config.size));
  auto made = Communicator::create(context->engine, config, store);
  if (!made.ok()) return made.status();
  *comm = new floe_comm{std::move(*made)};
  return {};
}

}  // namespace

extern "C" {

floe_status_t floe_comm_create(floe_context_t* context, const floe_comm_config_t* config,
                               const floe_store_t* store, floe_comm_t** comm) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    const Creating creating(context);
    if (!config || !comm) return error(FLOE_ERR_ARGUMENT, "{} is NULL", config ? "comm" : "config");
    auto wire_up = read_config(config, context->engine->settings());
    if (!wire_up.ok()) return wire_up.status();
    wire_up->rank = config->rank;
    wire_up->size = config->size;
    FLOE_TRY(check_rank(config->rank, config->size));
    if (config->size != 1 && !store)
      return error(FLOE_ERR_ARGUMENT, "store is NULL: {} ranks find each other through one", config->size);
    if (config->size == 1) return create(context, *wire_up, nullptr, comm);
    auto callers = CallerStore::create(store);
    if (!callers.ok()) return callers.status();
    return create(context, *wire_up, &*callers, comm);
  });
}

floe_status_t floe_comm_create_from_env(floe_context_t* context, const floe_comm_config_t* config,
                                        floe_comm_t** comm) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    const Creating creating(context);
    if (!comm) return {FLOE_ERR_ARGUMENT, "comm is NULL"};
    auto wire_up = read_config(config, context->engine->settings());
    if (!wire_up.ok()) return wire_up.status();
    const auto launch = discover_launch(context->engine->settings());
    if (!launch.ok()) return launch.status();
    wire_up->rank = launch->rank;
    wire_up->size = launch->size;
    wire_up->route_to = launch->address;
    if (launch->size == 1) return create(context, *wire_up, nullptr, comm);

    std::unique_ptr<TcpStoreServer> server;
    if (launch->rank == 0) {
      auto started = TcpStoreServer::start(launch->address, launch->port, launch->size);
      if (!started.ok()) return started.status();
      server = std::move(*started);
      // A rank that is done here and creates its next communicator must not meet this server again.
      wire_up->all_arrived = [raw = server.get()] { raw->stop_listening(); };
    }
    auto store = TcpStore::connect(launch->address, launch->port, Deadline::in_ms(wire_up->timeout_ms));
    if (!store.ok()) return store.status();
    Status status = create(context, *wire_up, store->get(), comm);
    if (!status.ok() && server) {
      // Others whose deadline is about now still have to hear from the store who is missing.
      constexpr Millis kLinger(1000);
      store->reset();
      server->wait_for_departures(Deadline::in(kLinger));
    }
    return status;
  });
}

floe_status_t floe_comm_destroy(floe_comm_t* comm) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    delete comm;
    return {};
  });
}

floe_status_t floe_comm_abort(floe_comm_t* comm) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    comm->comm->abort();
    return {};
  });
}

floe_status_t floe_comm_split(floe_comm_t* comm, int32_t color, int32_t key, floe_comm_t** new_comm) {
  return operation(comm, [&](Communicator& c) -> Status {
    if (!new_comm) return {FLOE_ERR_ARGUMENT, "new_comm is NULL"};
    if (color < 0 && color != FLOE_UNDEFINED)
      return error(FLOE_ERR_ARGUMENT, "color is {}: use 0 or more, or FLOE_UNDEFINED", color);
    auto made = c.split(color, key);
    if (!made.ok()) return made.status();
    *new_comm = *made ? new floe_comm{std::move(*made)} : nullptr;
    return {};
  });
}

floe_status_t floe_comm_shrink(floe_comm_t* comm, floe_comm_t** new_comm) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    if (!new_comm) return {FLOE_ERR_ARGUMENT, "new_comm is NULL"};
    auto made = comm->comm->shrink();
    if (!made.ok()) return made.status();
    *new_comm = new floe_comm{std::move(*made)};
    return {};
  });
}

floe_status_t floe_comm_set_timeout(floe_comm_t* comm, uint64_t timeout_ms) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    if (timeout_ms == 0) return {FLOE_ERR_ARGUMENT, "timeout_ms is 0: use 1 or more"};
    comm->comm->set_timeout(timeout_ms);
    return {};
  });
}

floe_status_t floe_comm_set_wire_type(floe_comm_t* comm, floe_type_t type) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    if (type != FLOE_FLOAT32 && type != FLOE_BFLOAT16)
      return error(FLOE_ERR_ARGUMENT, "type is {}: use {} (float32) or {} (bfloat16)", static_cast<int>(type),
                   static_cast<int>(FLOE_FLOAT32), static_cast<int>(FLOE_BFLOAT16));
    comm->comm->set_wire_type(type);
    return {};
  });
}

floe_status_t floe_comm_info(const floe_comm_t* comm, floe_comm_info_t* info) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    if (!info) return {FLOE_ERR_ARGUMENT, "info is NULL"};
    FLOE_TRY(check_struct(info->struct_size, sizeof(floe_comm_info_t), "floe_comm_info_t"));
    const Communicator& c = *comm->comm;
    info->rank = c.rank();
    info->size = c.size();
    info->local_rank = c.local_rank();
    info->local_size = c.local_size();
    info->direct = c.direct() ? 1 : 0;
    info->timeout_ms = c.timeout_ms();
    return {};
  });
}

}  // extern "C"
