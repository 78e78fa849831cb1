#include "shm/direct.h"

namespace floe {

DirectPath::DirectPath(std::vector<std::shared_ptr<Segment>> segments, uint32_t self, const Choices& choices,
                       std::vector<std::shared_ptr<Arena>> arenas, uint64_t cache_bytes)
    : ranks_(std::move(segments), self),
      choices_(choices),
      small_(ranks_.size()),
      stream_(ranks_, cache_bytes),
      exchange_(cache_bytes),
      mapped_{std::move(arenas)} {}

DirectOperation DirectPath::make_large(const DirectArgs& args, Protocol protocol) {
  const Movement what(args, ranks_.size(), ranks_.self());
  const bool shared = ranks_.own().layout().blocks_in_outbox();
  if (protocol == Protocol::kStream) {
    const bool returned = std::exchange(blocks_last_, false) && shared;
    return DirectOperation(std::in_place_type<Stream>, ranks_, stream_, what, returned);
  }
  // Each of the two begins in the other one's outbox, of which it has read all. Its own may be read still.
  if (!std::exchange(blocks_last_, true) && shared) slots_.side = 1;
  if (protocol == Protocol::kExchange)
    return DirectOperation(std::in_place_type<PairExchange>, ranks_, slots_, exchange_, what);
  // Who offers waits for those that don't to put a block on the return line: only where they do that.
  if (MappedReduce::fits(ranks_, mapped_, args))
    return DirectOperation(std::in_place_type<MappedReduce>, ranks_, mapped_, slots_, args);
  return DirectOperation(std::in_place_type<ReturnLine>, ranks_, slots_, what);
}

void DirectPath::enter(uint64_t sequence, uint32_t hash) {
  // Release: pairs with the acquire in entry(); nothing else is published by it.
  ranks_.own().header().entered.store(Flag::word(sequence, hash), std::memory_order_release);
}

DirectPath::Entry DirectPath::entry(uint32_t peer, uint64_t sequence, uint32_t hash) const {
  const uint64_t word = ranks_[peer].header().entered.load(std::memory_order_acquire);
  if (!Flag::reached(word, sequence)) return Entry::kAbsent;
  // A peer that is in a later collective has compared this one with this rank's.
  if (Flag::reached(word, sequence + 1)) return Entry::kSame;
  return word == Flag::word(sequence, hash) ? Entry::kSame : Entry::kDifferent;
}

}  // namespace floe
