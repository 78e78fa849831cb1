#include "api/arguments.h"

namespace floe::api {

Status bad_count(uint64_t count, floe_type_t type) {
  if (type_size(type) == 0)
    return error(FLOE_ERR_ARGUMENT, "{} is not a floe_type_t: use 0 (float32) to {} ({})",
                 static_cast<int>(type), kTypes - 1, type_name(kTypes - 1));
  return error(FLOE_ERR_ARGUMENT, "count is {}: too many elements of {} (a negative number?)", count,
               type_name(type));
}

Status bad_buffer(const void* buffer, uint64_t count, std::string_view name) {
  if (buffer == FLOE_IN_PLACE) return no_in_place(name);
  return error(FLOE_ERR_ARGUMENT, "{} is NULL and count is {}", name, count);
}

Status no_in_place(std::string_view name) {
  return error(FLOE_ERR_ARGUMENT, "{} is FLOE_IN_PLACE, which is not allowed there", name);
}

Status bad_peer(uint32_t peer, const Communicator& comm, std::string_view name) {
  if (comm.size() == 1)
    return error(FLOE_ERR_ARGUMENT, "{} is {}: this communicator has no other rank", name, peer);
  return error(FLOE_ERR_ARGUMENT, "{} is {}: it must be another rank than this one, {}, and less than {}",
               name, peer, comm.rank(), comm.size());
}

Status bad_root(uint32_t root, const Communicator& comm) {
  return error(FLOE_ERR_ARGUMENT, "root is {}: it must be less than size, {}", root, comm.size());
}

Status bad_overlap() {
  return {FLOE_ERR_ARGUMENT, "send and recv overlap, and not as the in-place form allows"};
}

Status conclude_late(const Communicator& comm, const Operation& late) {
  comm.engine()->wait(late, Deadline::never());
  return late.status();
}

Status conclude_started(const Communicator& comm, Communicator::Started& started, floe_request_t** req) {
  if (!started.ok()) return started.status();
  if (req) {
    comm.engine()->notify_worker();
    *req = new floe_request{comm.engine(), std::move(*started)};
    return {};
  }
  comm.engine()->wait(**started, Deadline::never());
  return (*started)->status();
}

}  // namespace floe::api
