#include "shm/direct.h"

namespace floe {

DirectPath::DirectPath(std::vector<std::shared_ptr<Segment>> segments, uint32_t self)
    : ranks_(std::move(segments), self),
      small_(ranks_.size()),
      stream_(ranks_.size(), ranks_.own().layout().outbox_bytes) {}

DirectOperation DirectPath::make_large(DirectArgs args) {
  const Pattern& pattern = args.pattern;
  // A root that adds everything by itself is what the others wait for, once they are more than two.
  constexpr uint32_t kManyForOne = 4;
  const bool spread = pattern.read == Pattern::Ranks::kAll || ranks_.size() >= kManyForOne;
  if (pattern.reduces && !pattern.block_each && spread)
    return DirectOperation(std::in_place_type<ReturnLine>, ranks_, line_, args);
  return DirectOperation(std::in_place_type<Stream>, ranks_, stream_,
                         Movement(args, ranks_.size(), ranks_.self()));
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
