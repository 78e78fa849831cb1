// The communicator's collectives of blocks: gather, scatter, all_to_all and the v-forms.
#include "comm/communicator.h"
#include "comm/descriptor.h"

namespace floe {
namespace {

// Of collectives whose counts must be the same on all ranks: their sum, and a digest in place of the root.
Descriptor with_counts(Kind kind, const Blocks& blocks, floe_type_t type, int op = 0) {
  uint64_t sum = 0, digest = 0xcbf29ce484222325;  // FNV-1a, with counts for bytes (Fowler, Noll & Vo 1991)
  for (const Block& block : blocks) {
    const uint64_t count = block.bytes / type_size(type);
    sum += count;
    digest = (digest ^ count) * 0x100000001b3;
  }
  return collective(kind, sum, type, op, static_cast<uint32_t>(digest ^ digest >> 32));
}

const void* at(const void* base, const Block& block) {
  return static_cast<const std::byte*>(base) + block.offset;
}

}  // namespace

Communicator::Started Communicator::all_gather_v(const void* send, void* recv, const Blocks& to,
                                                 floe_type_t type) {
  const bool in_place = send == at(recv, to[rank()]);
  return scheduled(with_counts(Kind::kAllGatherV, to, type), floe::all_gather(rank(), to, in_place), send,
                   recv);
}

Communicator::Started Communicator::reduce_scatter_v(const void* send, const Blocks& from, void* recv,
                                                     floe_type_t type, Operator op) {
  return scheduled(with_counts(Kind::kReduceScatterV, from, type, op.op), op,
                   floe::reduce_scatter(rank(), from), send, recv);
}

Communicator::Started Communicator::all_to_all(const void* send, void* recv, uint64_t count, floe_type_t type,
                                               bool in_place, bool wait) {
  const Descriptor descriptor = collective(Kind::kAllToAll, count, type);
  if (direct()) return on_memory(descriptor, pattern::kAllToAll, send, recv, wait);
  const Blocks blocks = equal_blocks(size(), count * type_size(type));
  return scheduled(descriptor, floe::all_to_all(rank(), blocks, blocks, in_place), send, recv);
}

Communicator::Started Communicator::all_to_all_v(const void* send, const Blocks& from, void* recv,
                                                 const Blocks& to, floe_type_t type, bool in_place) {
  return scheduled(collective(Kind::kAllToAllV, 0, type), floe::all_to_all(rank(), from, to, in_place), send,
                   recv);
}

Communicator::Started Communicator::gather(const void* send, void* recv, uint64_t count, floe_type_t type,
                                           uint32_t root, bool wait) {
  const Descriptor descriptor = collective(Kind::kGather, count, type, 0, root);
  if (direct()) return on_memory(descriptor, pattern::kGather, send, recv, wait);
  const uint64_t bytes = count * type_size(type);
  return scheduled(descriptor, floe::gather(rank(), bytes, equal_blocks(size(), bytes), root), send, recv);
}

Communicator::Started Communicator::gather_v(const void* send, uint64_t count, void* recv, const Blocks& to,
                                             floe_type_t type, uint32_t root) {
  return scheduled(collective(Kind::kGatherV, 0, type, 0, root),
                   floe::gather(rank(), count * type_size(type), to, root), send, recv);
}

Communicator::Started Communicator::scatter(const void* send, void* recv, uint64_t count, floe_type_t type,
                                            uint32_t root, bool wait) {
  const Descriptor descriptor = collective(Kind::kScatter, count, type, 0, root);
  if (direct()) return on_memory(descriptor, pattern::kScatter, send, recv, wait);
  const uint64_t bytes = count * type_size(type);
  return scheduled(descriptor, floe::scatter(rank(), equal_blocks(size(), bytes), bytes, root), send, recv);
}

Communicator::Started Communicator::scatter_v(const void* send, const Blocks& from, void* recv,
                                              uint64_t count, floe_type_t type, uint32_t root) {
  return scheduled(collective(Kind::kScatterV, 0, type, 0, root),
                   floe::scatter(rank(), from, count * type_size(type), root), send, recv);
}

}  // namespace floe
