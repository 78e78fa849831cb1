#include "shm/pair_exchange.h"

#include <algorithm>
#include <atomic>

#include "base/cache_hints.h"
#include "base/copy.h"

namespace floe {

uint64_t PairExchange::piece(const LocalRanks& ranks, uint64_t block_bytes) {
  // Measured on a Zen 5: with 128 KiB 1 MiB and more take 4 to 7 % longer where the cores share no cache,
  // with 512 KiB 5 % where they do, as the two buffers fill the second-level cache.
  // Where two ranks have smaller blocks their pieces are no larger: all_to_all of 1 and 2 MiB takes a tenth
  // less with 128 KiB on an Emerald Rapids.
  constexpr uint64_t kMost = 256 << 10, kLine = 64;
  const SegmentLayout& layout = ranks.own().layout();
  const uint64_t room =
      std::min<uint64_t>(kMost, ranks.size() == 2 ? layout.block_bytes : layout.blocks_bytes());
  const uint64_t fewest = (block_bytes + room - 1) / room, even = (block_bytes + fewest - 1) / fewest;
  return std::min((even + kLine - 1) / kLine * kLine, room);
}

PairExchange::PairExchange(const LocalRanks& ranks, PairSlots& slots, Keeping::State& keeping,
                           const Movement& what)
    : ranks_(&ranks),
      what_(what),
      keeping_(keeping, what, true),
      chunks_(what.block_bytes(), piece(ranks, what.block_bytes())),
      first_(slots.exchanges),
      side_(slots.side) {
  slots.exchanges += chunks();
  slots.side += chunks();
}

void PairExchange::put() {
  const uint32_t self = ranks_->self();
  for (uint32_t reader = 0; reader < ranks_->size(); ++reader)
    if (reader != self)
      copy_bytes(slot(put_, self, reader), what_.sent(reader) + chunks_.begin(put_), chunks_.bytes(put_));
  publish();
}

void PairExchange::publish() {
  const uint32_t self = ranks_->self();
  const uint64_t chunk = put_++, bytes = chunks_.bytes(chunk);
  // Release: pairs with the acquire in arrival(). The slots are this rank's: it has read them in the exchange
  // before, and their writers read others since; or they are outboxes that it has read.
  auto& flag = this->flag(ranks_->own(), first_ + chunk);
  flag.store(Flag::word(first_ + put_, what_.args().hash), std::memory_order_release);
  for (uint32_t reader = 0; reader < ranks_->size(); ++reader)
    if (reader != self) demote(slot(chunk, self, reader), bytes, flag);
  // While the flag crosses. All_gather's own block has just been read.
  if (!what_.args().pattern.reduces) what_.keep_own(chunks_.begin(chunk), bytes, keeping_.copy_own(chunk));
}

void PairExchange::swap(uint32_t source) {
  std::byte* const to = what_.kept(source) + chunks_.begin(taken_);
  std::byte* const shared = slot(taken_, source, ranks_->self());
  const bool any = put_ < chunks();
  const std::byte* const next = any ? what_.sent(source) + chunks_.begin(put_) : nullptr;
  const uint64_t bytes = chunks_.bytes(taken_), next_bytes = any ? chunks_.bytes(put_) : 0;
  uint64_t both = 0;
  keeping_(bytes, [&] {
    if (is_fetched_ahead(next_bytes) && !keeping_.past(taken_)) {
      both = std::min(bytes, next_bytes);
      swap_ahead(to, shared, next, both);
    }
    keeping_.copy_peers(taken_)(to + both, shared + both, bytes - both);
  });
  if (any) copy_bytes(shared + both, next + both, next_bytes - both);
}

Poll PairExchange::arrival(uint32_t peer) const {
  const uint64_t number = first_ + taken_;
  // Acquire: pairs with the release in put(). The flag is of this chunk: the peer puts no more than the next
  // one, into the other flag, before this rank has put that, too.
  const uint64_t word = flag((*ranks_)[peer], number).load(std::memory_order_acquire);
  if (word == Flag::word(number + 1, what_.args().hash)) return Poll::kDone;
  return Flag::reached(word, number + 1) ? Poll::kMismatch : Poll::kPending;
}

Poll PairExchange::take() {
  const uint32_t self = ranks_->self();
  const bool reduces = what_.args().pattern.reduces;
  for (; source_ < ranks_->size(); ++source_) {
    if (source_ == self) continue;
    if (const Poll poll = arrival(source_); poll != Poll::kDone) return poll;
    if (!reduces) swap(source_);
  }
  source_ = 0;
  if (reduces)
    what_.reduce_from([&](uint32_t source) { return slot(taken_, source, self); }, chunks_.begin(taken_),
                      chunks_.bytes(taken_));
  else if (put_ < chunks())
    publish();
  if (++taken_ == chunks()) keeping_.end();
  return Poll::kDone;
}

Poll PairExchange::poll() {
  bool moved = false;
  if (put_ == taken_) {  // the first chunk, and each of those that are summed
    put();
    moved = true;
  }
  const uint32_t before = source_;
  const Poll poll = take();
  if (poll == Poll::kMismatch) return poll;
  if (taken_ == chunks()) return Poll::kDone;
  return moved || poll == Poll::kDone || source_ != before ? Poll::kMoved : Poll::kPending;
}

bool PairExchange::waits_for(uint32_t peer) const {
  return put_ > taken_ && peer != ranks_->self() && peer >= source_ && arrival(peer) == Poll::kPending;
}

}  // namespace floe
