// The collectives of blocks, gather, scatter, all_to_all and the v-forms: argument checks.
#include "api/arguments.h"
#include "api/footprint.h"

using namespace floe;
using namespace floe::api;

namespace {

const void* at(const void* base, const Block& block) {
  return base ? static_cast<const std::byte*>(base) + block.offset : nullptr;
}

// What this rank sends itself, in bytes.
Status check_own(uint32_t rank, uint64_t sent, uint64_t received) {
  if (sent == received) return {};
  return error(FLOE_ERR_ARGUMENT, "rank {} sends itself {} bytes and receives {} from itself: not the same",
               rank, sent, received);
}

// The root of a gather. FLOE_IN_PLACE becomes the address that it stands for.
Status check_gather_root(const Communicator& comm, const void*& send, uint64_t bytes, const void* recv,
                         const Blocks& to) {
  const Block& block = to[comm.rank()];
  const void* const own = at(recv, block);
  if (send == FLOE_IN_PLACE)
    send = own;
  else
    FLOE_TRY(check_own(comm.rank(), bytes, block.bytes));
  Footprint memory;
  memory.writes("recv", recv, to);
  if (send != own) memory.reads("send", send, bytes);
  return memory.check();
}

// The root of a scatter, in the same way.
Status check_scatter_root(const Communicator& comm, const void* send, const Blocks& from, void*& recv,
                          uint64_t bytes) {
  if (send == FLOE_IN_PLACE)
    return {FLOE_ERR_ARGUMENT, "send is FLOE_IN_PLACE: scatter in place has it for recv, on the root"};
  const Block& block = from[comm.rank()];
  void* const own = const_cast<void*>(at(send, block));  // written only if the caller says so
  if (recv == FLOE_IN_PLACE)
    recv = own;
  else
    FLOE_TRY(check_own(comm.rank(), block.bytes, bytes));
  Footprint memory;
  memory.reads("send", send, from, recv == own ? comm.rank() : Footprint::kNone);
  memory.writes("recv", recv, block.bytes);
  return memory.check();
}

// The root of a gather or a scatter of equal blocks: `all` of them in one buffer, `one` of this rank's in the
// other, which becomes the block that FLOE_IN_PLACE stands for.
template <class Pointer>
Status check_equal_root(const Communicator& comm, const void* all, std::string_view all_name, Pointer& one,
                        std::string_view one_name, uint64_t count, uint64_t bytes) {
  FLOE_TRY(check_buffer(all, count, all_name));
  auto* const own = static_cast<std::byte*>(const_cast<void*>(all)) + comm.rank() * bytes;
  if (one == FLOE_IN_PLACE) one = own;
  FLOE_TRY(check_buffer(one, count, one_name));
  return one == own ? Status() : check_overlap(one, bytes, all, comm.size() * bytes);
}

// Whether that finds nothing.
template <class Pointer>
bool is_fine_at_root(const Communicator& comm, const void* all, Pointer& one, uint64_t bytes) {
  auto* const own = place_in(all, comm.rank() * bytes);
  if (one == FLOE_IN_PLACE) one = own;
  return one == own ? is_fine(all) && is_fine(one) : are_fine(one, bytes, all, comm.size() * bytes);
}

// `buffer` is "send" of a gather or "recv" of a scatter, on a rank that is not the root.
Status check_leaf(const void* buffer, uint64_t count, std::string_view name) {
  if (buffer == FLOE_IN_PLACE)
    return error(FLOE_ERR_ARGUMENT, "{} is FLOE_IN_PLACE, which only the root may say", name);
  return check_buffer(buffer, count, name);
}

}  // namespace

extern "C" {

floe_status_t floe_all_gather_v(floe_comm_t* comm, const void* send, void* recv, const uint64_t* counts,
                                const uint64_t* offsets, floe_type_t type, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const auto to = make_blocks({"counts", counts, offsets}, c.size(), type);
    FLOE_TRY(to.status());
    const Block& block = (*to)[c.rank()];
    const void* const own = at(recv, block);
    if (send == FLOE_IN_PLACE) send = own;
    Footprint memory;
    memory.writes("recv", recv, *to);
    if (send != own) memory.reads("send", send, block.bytes);
    FLOE_TRY(memory.check());
    return conclude(c, c.all_gather_v(send, recv, *to, type), req);
  });
}

floe_status_t floe_reduce_scatter_v(floe_comm_t* comm, const void* send, void* recv, const uint64_t* counts,
                                    const uint64_t* offsets, floe_type_t type, floe_op_t op,
                                    floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const auto what = c.ops().find(op, type);
    if (!what.ok()) return what.status();
    const auto from = make_blocks({"counts", counts, offsets}, c.size(), type);
    FLOE_TRY(from.status());
    if (send == FLOE_IN_PLACE)
      return {FLOE_ERR_ARGUMENT,
              "reduce_scatter_v in place is recv = send + offsets[rank], not FLOE_IN_PLACE"};
    const Block& block = (*from)[c.rank()];
    Footprint memory;
    memory.reads("send", send, *from, recv == at(send, block) ? c.rank() : Footprint::kNone);
    memory.writes("recv", recv, block.bytes);
    FLOE_TRY(memory.check());
    return conclude(c, c.reduce_scatter_v(send, *from, recv, type, *what), req);
  });
}

floe_status_t floe_all_to_all(floe_comm_t* comm, const void* send, void* recv, uint64_t count,
                              floe_type_t type, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    if (send == FLOE_IN_PLACE) send = recv;
    const uint64_t bytes = c.size() * count * type_size(type);
    const bool in_place = send == recv;
    if (!req && (in_place ? is_fine(recv) : are_fine(send, bytes, recv, bytes)))
      if (auto again = repeat(c, {Kind::kAllToAll, count, type}, send, recv)) return *std::move(again);
    FLOE_TRY(check_count(count, type, c.size()));
    FLOE_TRY(check_buffer(send, count, "send"));
    FLOE_TRY(check_buffer(recv, count, "recv"));
    if (!in_place) FLOE_TRY(check_overlap(send, bytes, recv, bytes));
    return conclude(c, c.all_to_all(send, recv, count, type, in_place, !req), req);
  });
}

floe_status_t floe_all_to_all_v(floe_comm_t* comm, const void* send, const uint64_t* send_counts,
                                const uint64_t* send_offsets, void* recv, const uint64_t* recv_counts,
                                const uint64_t* recv_offsets, floe_type_t type, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const bool in_place = send == FLOE_IN_PLACE;
    const auto to = make_blocks({"recv_counts", recv_counts, recv_offsets}, c.size(), type);
    FLOE_TRY(to.status());
    const auto from = in_place ? to : make_blocks({"send_counts", send_counts, send_offsets}, c.size(), type);
    FLOE_TRY(from.status());
    FLOE_TRY(check_own(c.rank(), (*from)[c.rank()].bytes, (*to)[c.rank()].bytes));
    Footprint memory;
    memory.writes("recv", recv, *to);
    if (!in_place) memory.reads("send", send, *from);
    FLOE_TRY(memory.check());
    return conclude(c, c.all_to_all_v(in_place ? recv : send, *from, recv, *to, type, in_place), req);
  });
}

floe_status_t floe_gather(floe_comm_t* comm, const void* send, void* recv, uint64_t count, floe_type_t type,
                          uint32_t root, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const uint64_t bytes = count * type_size(type);
    const bool is_root = c.rank() == root;
    if (!req && (is_root ? is_fine_at_root(c, recv, send, bytes) : is_fine(send)))
      if (auto again = repeat(c, {Kind::kGather, count, type, 0, root}, send, recv)) return *std::move(again);
    FLOE_TRY(check_count(count, type, c.size()));
    FLOE_TRY(check_root(root, c));
    FLOE_TRY(is_root ? check_equal_root(c, recv, "recv", send, "send", count, bytes)
                     : check_leaf(send, count, "send"));
    return conclude(c, c.gather(send, recv, count, type, root, !req), req);
  });
}

floe_status_t floe_gather_v(floe_comm_t* comm, const void* send, uint64_t send_count, void* recv,
                            const uint64_t* counts, const uint64_t* offsets, floe_type_t type, uint32_t root,
                            floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    FLOE_TRY(check_root(root, c));
    if (send != FLOE_IN_PLACE) FLOE_TRY(check_count(send_count, type));
    if (c.rank() != root) {
      FLOE_TRY(check_leaf(send, send_count, "send"));
      return conclude(c, c.gather_v(send, send_count, nullptr, {}, type, root), req);
    }
    const auto to = make_blocks({"counts", counts, offsets}, c.size(), type);
    FLOE_TRY(to.status());
    FLOE_TRY(check_gather_root(c, send, send_count * type_size(type), recv, *to));
    return conclude(c, c.gather_v(send, send_count, recv, *to, type, root), req);
  });
}

floe_status_t floe_scatter(floe_comm_t* comm, const void* send, void* recv, uint64_t count, floe_type_t type,
                           uint32_t root, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    const uint64_t bytes = count * type_size(type);
    const bool is_root = c.rank() == root;
    if (!req && (is_root ? is_fine_at_root(c, send, recv, bytes) : is_fine(recv)))
      if (auto again = repeat(c, {Kind::kScatter, count, type, 0, root}, send, recv))
        return *std::move(again);
    FLOE_TRY(check_count(count, type, c.size()));
    FLOE_TRY(check_root(root, c));
    FLOE_TRY(is_root ? check_equal_root(c, send, "send", recv, "recv", count, bytes)
                     : check_leaf(recv, count, "recv"));
    return conclude(c, c.scatter(send, recv, count, type, root, !req), req);
  });
}

floe_status_t floe_scatter_v(floe_comm_t* comm, const void* send, const uint64_t* counts,
                             const uint64_t* offsets, void* recv, uint64_t recv_count, floe_type_t type,
                             uint32_t root, floe_request_t** req) {
  return operation(comm, [&](Communicator& c) -> Status {
    FLOE_TRY(check_root(root, c));
    if (recv != FLOE_IN_PLACE) FLOE_TRY(check_count(recv_count, type));
    if (c.rank() != root) {
      FLOE_TRY(check_leaf(recv, recv_count, "recv"));
      return conclude(c, c.scatter_v(nullptr, {}, recv, recv_count, type, root), req);
    }
    const auto from = make_blocks({"counts", counts, offsets}, c.size(), type);
    FLOE_TRY(from.status());
    FLOE_TRY(check_scatter_root(c, send, *from, recv, recv_count * type_size(type)));
    return conclude(c, c.scatter_v(send, *from, recv, recv_count, type, root), req);
  });
}

}  // extern "C"
