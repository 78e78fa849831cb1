#include "shm/movement.h"

#include <cstring>

#include "base/types.h"
#include "reduce/reduce.h"
#include "shm/per_rank.h"

namespace floe {
namespace {

void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

Movement::Movement(const DirectArgs& args, uint32_t ranks, uint32_t self)
    : args_(args), ranks_(ranks), self_(self), bytes_(args.count * type_size(args.type)) {}

std::byte* Movement::kept(uint32_t source) const {
  // Where the root alone publishes there is one source, and room for no more.
  const bool one = args_.pattern.reduces || args_.pattern.publish == Pattern::Ranks::kRoot;
  return static_cast<std::byte*>(args_.recv) + (one ? 0 : source * bytes_);
}

void Movement::publish(CopyOut& copy_out, std::byte* slot, uint64_t begin, uint64_t bytes) const {
  if (bytes == 0 || !publishes(self_)) return;
  if (!args_.pattern.block_each) return copy_out(slot, sent(0) + begin, bytes);
  for (uint32_t reader = 0; reader < ranks_; ++reader)
    if (reader != self_) copy_out(slot + reader * bytes, sent(reader) + begin, bytes);
}

void Movement::keep(uint32_t source, const std::byte* slot, uint64_t begin, uint64_t bytes) const {
  if (bytes == 0) return;
  copy(kept(source) + begin, slot + (args_.pattern.block_each ? self_ * bytes : 0), bytes);
}

void Movement::keep_own(uint64_t begin, uint64_t bytes) const {
  if (bytes == 0) return;
  const bool one_for_all = args_.pattern.publish == Pattern::Ranks::kRoot && !args_.pattern.block_each;
  const bool has_own = args_.pattern.block_each ? publishes(self_) : reads(self_);
  if (has_own && !one_for_all) copy(kept(self_) + begin, sent(self_) + begin, bytes);
}

void Movement::reduce_all(std::span<const std::byte* const> slots, uint64_t begin, uint64_t bytes) const {
  if (bytes == 0) return;
  const uint64_t mine = args_.pattern.block_each ? self_ * bytes : 0;
  PerRank<const void*> sources(ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    sources[rank] = rank == self_ ? sent(self_) + begin : slots[rank] + mine;
  void* const destination[] = {kept(self_) + begin};
  reduce(destination, sources.first(ranks_), bytes / type_size(args_.type), args_.type, args_.op, ranks_);
}

}  // namespace floe
