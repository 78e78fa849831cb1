// What a program can ask: context, machine, settings, statistics; and where log lines go.
#include <unistd.h>

#include <algorithm>

#include "api/api.h"
#include "base/log.h"
#include "topo/topology.h"

using namespace floe;
using namespace floe::api;

namespace {

template <class Info>
Status check_info(const Info* info, std::string_view name) {
  if (!info) return {FLOE_ERR_ARGUMENT, "info is NULL"};
  return check_struct(info->struct_size, sizeof(Info), name);
}

}  // namespace

extern "C" {

floe_status_t floe_context_info(const floe_context_t* context, floe_context_info_t* info) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    FLOE_TRY(check_info(info, "floe_context_info_t"));
    const Heap::Usage usage = context->heap.usage();
    {
      const std::lock_guard guard(context->engine->lock());
      info->communicators = static_cast<uint32_t>(context->engine->groups());
    }
    info->workers = context->engine->settings().workers;
    info->settings = static_cast<uint32_t>(setting_table().size());
    info->allocations = usage.allocations;
    info->allocated_bytes = usage.allocated_bytes;
    info->registrations = usage.registrations;
    info->registered_bytes = usage.registered_bytes;
    return {};
  });
}

floe_status_t floe_topology(floe_topology_t* info) {
  return entry([&]() -> Status {
    FLOE_TRY(check_info(info, "floe_topology_t"));
    const auto machine = topology();
    if (!machine.ok()) return machine.status();
    info->host_cpus = static_cast<uint32_t>(std::max(0L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    info->packages = machine->packages;
    info->numa_nodes = machine->numa_nodes;
    info->cores = machine->cores;
    info->cpus = machine->cpus;
    info->l3_caches = machine->l3_caches;
    info->l3_cpus = machine->l3_cpus;
    info->l3_bytes = machine->l3_bytes;
    info->l2_bytes = machine->l2_bytes;
    info->memory_bytes = machine->memory_bytes;
    return {};
  });
}

floe_status_t floe_setting(const floe_context_t* context, uint32_t index, floe_setting_t* info) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    FLOE_TRY(check_info(info, "floe_setting_t"));
    const auto& values = context->engine->settings().values;
    if (index >= values.size())
      return error(FLOE_ERR_ARGUMENT, "index is {}: there are {} settings", index, values.size());
    const SettingInfo& row = setting_table()[index];
    info->source = values[index].source;
    info->name = row.name.data();
    info->value = values[index].text.c_str();
    info->values = row.values.data();
    info->help = row.help.data();
    return {};
  });
}

floe_status_t floe_comm_statistics(const floe_comm_t* comm, floe_comm_statistics_t* info) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    FLOE_TRY(check_info(info, "floe_comm_statistics_t"));
    const Communicator::Statistics s = comm->comm->statistics();
    info->status = static_cast<uint32_t>(s.status);
    info->collectives = s.collectives;
    info->collective_bytes = s.collective_bytes;
    info->sends = s.sends;
    info->sent_bytes = s.sent_bytes;
    info->receives = s.receives;
    info->refused = s.refused;
    info->completed = s.completed;
    info->failed = s.failed;
    return {};
  });
}

floe_status_t floe_set_log_callback(void (*fn)(void* user, uint32_t level, const char* message), void* user) {
  return entry([&]() -> Status {
    set_log_callback(fn, user);
    return {};
  });
}

}  // extern "C"
