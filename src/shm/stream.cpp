#include "shm/stream.h"

#include <algorithm>
#include <utility>

#include "base/cache_hints.h"
#include "base/types.h"

namespace floe {
namespace {

constexpr uint64_t kLine = 128;  // two of 64 bytes, as they are prefetched

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Bytes of each block in a chunk: a multiple of every element's size, unless all of the block fits. Four
// chunks or more of 64 KiB, so that readers begin early, and from there up to 128: of 1 MiB and more 128 KiB
// take 3 % (near) to 10 % less than 64.
uint64_t choose_piece(const Movement& what) {
  constexpr uint64_t kLeast = 64 << 10, kMost = 128 << 10;
  const uint64_t blocks = what.blocks_in_slot();
  const uint64_t most = std::clamp(what.block_bytes() * blocks / 4, kLeast, kMost) / blocks / kLine * kLine;
  return std::min(what.block_bytes(), std::max(most, kLine));
}

// What the peers find of reading this rank's outbox.
std::vector<const ReadCosts*> read_costs(const LocalRanks& ranks) {
  std::vector<const ReadCosts*> costs;
  for (uint32_t peer = 0; peer < ranks.size(); ++peer)
    if (peer != ranks.self()) costs.push_back(&ranks[peer].cursors(ranks.self()).stream_read);
  return costs;
}

}  // namespace

Stream::State::State(const LocalRanks& ranks, uint64_t cache_bytes)
    : copy_out(ranks.own().layout().outbox_bytes, ranks.own().header().stream_trial, read_costs(ranks)),
      keeping(cache_bytes),
      seen(ranks.size()) {}

uint64_t StreamLayout::at(uint64_t chunk) const {
  if (chunk < first_lap_) return begin_ + chunk * bytes_;
  const uint64_t lap = capacity_ / bytes_, rest = chunk - first_lap_;
  const uint64_t next = begin_ / capacity_ * capacity_ + capacity_;
  return next + rest / lap * capacity_ + rest % lap * bytes_;
}

Stream::Stream(const LocalRanks& ranks, State& state, const Movement& what, bool returned)
    : ranks_(&ranks),
      state_(&state),
      what_(what),
      keeping_(state.keeping, what, what.reads(ranks.self())),
      chunks_(what.block_bytes(), choose_piece(what)),
      first_(state.chunks),
      layout_(state.position, round_up(chunks_.piece() * what.blocks_in_slot(), kLine),
              ranks.own().layout().outbox_bytes) {
  state.chunks += chunks();
  state.position = layout_.end(chunks());
  if (returned) return_ = ++state.returns;
}

// Tells the peers that this rank has no use any more for blocks that lay in outboxes. False: it has told
// them.
bool Stream::give_back() const {
  std::atomic<uint64_t>& own = ranks_->own().header().returned;
  if (own.load(std::memory_order_relaxed) >= return_) return false;
  own.store(return_, std::memory_order_release);  // pairs with the acquire in keeps()
  return true;
}

// Whether they have told this rank, if it is to write into its outbox.
bool Stream::has_back() {
  for (uint32_t peer = 0; peer < ranks_->size() && return_ != 0 && what_.publishes(ranks_->self()); ++peer)
    if (keeps(peer)) return false;
  return_ = 0;
  return true;
}

bool Stream::keeps(uint32_t peer) const {
  // Acquire: pairs with the release in give_back(); the peer's reads come before it.
  return peer != ranks_->self() &&
         (*ranks_)[peer].header().returned.load(std::memory_order_acquire) < return_;
}

std::byte* Stream::slot(uint32_t rank, uint64_t chunk) const {
  return (*ranks_)[rank].outbox(layout_.at(chunk));
}

// How many chunks a rank may be ahead of those who read them. Two ranks with a shared cache: few, or ordinary
// stores soon overwrite what has just been read, and lies in the reader's second-level cache. Non-temporal
// stores don't mind, and ranks that share a CPU go on until they must give it away.
uint64_t Stream::most_ahead() const {
  constexpr uint64_t kBytes = 256 << 10, kSmallest = 32 << 10, kLargest = 64 << 10;
  static_assert(kBytes / kLargest > kAhead);  // or each waits for the other
  const uint64_t chunk = layout_.chunk_bytes();
  if (ranks_->size() != 2 || state_->copy_out.non_temporal() || chunk < kSmallest || chunk > kLargest)
    return SegmentHeader::kStreamFlags;
  return kBytes / chunk;
}

// State::freed for the chunk that is put next: chunks whose place, or flag, it takes.
void Stream::make_room() const {
  const uint64_t number = first_ + put_, capacity = ranks_->own().layout().outbox_bytes;
  const uint64_t end = layout_.at(put_) + chunks_.bytes(put_) * what_.blocks_in_slot();
  const uint64_t most = most_ahead();
  uint64_t& freed = state_->freed;
  while (freed < number &&
         (number - freed >= most || state_->begins[freed % SegmentHeader::kStreamFlags] + capacity < end))
    ++freed;
}

// Whether `peer` has read all that is in the way.
bool Stream::has_room(uint32_t peer) const {
  if (state_->freed == 0 || peer == ranks_->self()) return true;
  // A rank that has published chunk `freed - 1 + kAhead` has read chunk `freed - 1`.
  const uint64_t wanted = state_->freed + kAhead;
  uint64_t& seen = state_->seen[peer];
  if (seen >= wanted) return true;
  // Acquire: pairs with the release in put(); the peer's reads come before it.
  const auto& flag = (*ranks_)[peer].header().stream[(wanted - 1) % SegmentHeader::kStreamFlags];
  if (!Flag::reached(flag.load(std::memory_order_acquire), wanted)) return false;
  seen = wanted;
  return true;
}

bool Stream::room() const {
  make_room();
  for (uint32_t peer = 0; peer < ranks_->size(); ++peer)
    if (!has_room(peer)) return false;
  return true;
}

void Stream::put() {
  const uint64_t number = first_ + put_, bytes = chunks_.bytes(put_);
  std::byte* const to = slot(ranks_->self(), put_);
  state_->begins[number % SegmentHeader::kStreamFlags] = layout_.at(put_);
  what_.publish(state_->copy_out, to, chunks_.begin(put_), bytes);
  ++put_;
  // Release: pairs with the acquires in arrival() and has_room(). The place is free: see has_back(), room().
  auto& flag = ranks_->own().header().stream[number % SegmentHeader::kStreamFlags];
  flag.store(Flag::word(number + 1, what_.args().hash), std::memory_order_release);
  // Where one only gives and the other only takes, they do not wait for each line.
  const bool exchange = what_.publishes(ranks_->self()) && what_.reads(ranks_->self());
  if (exchange) demote(to, bytes * what_.blocks_in_slot(), flag);
}

Poll Stream::arrival(uint32_t peer) const {
  const uint64_t wanted = first_ + taken_ + 1;
  const auto& flag = (*ranks_)[peer].header().stream[(wanted - 1) % SegmentHeader::kStreamFlags];
  // Acquire: pairs with the release in put(). No later chunk takes the flag's place before this rank has
  // published again.
  const uint64_t word = flag.load(std::memory_order_acquire);
  if (word == Flag::word(wanted, what_.args().hash)) return Poll::kDone;
  return Flag::reached(word, wanted) ? Poll::kMismatch : Poll::kPending;
}

template <class Read>
void Stream::read_from(uint32_t source, uint64_t bytes, const Read& read) const {
  if (bytes < CopyOut::kSmallest) return read();
  read_copied((*ranks_)[source].header().stream_trial, ranks_->own().cursors(source).stream_read, bytes,
              read);
}

Poll Stream::take() {
  const uint32_t self = ranks_->self(), n = ranks_->size();
  const uint64_t begin = chunks_.begin(taken_), bytes = chunks_.bytes(taken_);
  const bool reduces = what_.args().pattern.reduces;
  // First: peers may still be putting theirs.
  if (!reduces && !std::exchange(kept_own_, true)) what_.keep_own(begin, bytes, keeping_.copy_own(taken_));
  for (; source_ < n; ++source_) {
    if (!what_.reads_from(source_)) continue;
    const Poll poll = arrival(source_);
    if (poll != Poll::kDone) return poll;
    const auto keep = [&] {
      what_.keep(source_, slot(source_, taken_), begin, bytes, keeping_.copy_peers(taken_));
    };
    if (!reduces) keeping_(bytes, [&] { read_from(source_, bytes, keep); });
  }
  if (reduces && what_.reads(self)) {
    // All at once. It counts for the next rank, which is the only one as often as not.
    read_from((self + 1) % n, bytes,
              [&] { what_.reduce_all([&](uint32_t rank) { return slot(rank, taken_); }, begin, bytes); });
  }
  if (++taken_ == chunks()) keeping_.end();
  source_ = 0;
  kept_own_ = false;
  return Poll::kDone;
}

Poll Stream::poll() {
  bool moved = return_ != 0 && give_back();
  if (put_ < chunks() && put_ < taken_ + kAhead && has_back() && room()) {
    put();
    moved = true;
  }
  if (taken_ < put_) {
    const uint32_t before = source_;
    const Poll poll = take();
    if (poll == Poll::kMismatch) return poll;
    moved |= poll == Poll::kDone || source_ != before;
  }
  if (taken_ == chunks()) return Poll::kDone;
  return moved ? Poll::kMoved : Poll::kPending;
}

bool Stream::waits_for(uint32_t peer) const {
  if (return_ != 0) return keeps(peer);
  if (taken_ < put_) return peer >= source_ && what_.reads_from(peer) && arrival(peer) == Poll::kPending;
  return !has_room(peer);
}

}  // namespace floe
