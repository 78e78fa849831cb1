#include "coll/chunks.h"

namespace floe {
namespace {

// Chunks of each part that may be under way at a time: enough to hide the latency, and few enough that a sum
// is not held up behind many contributions. With those of both phases a peer is sent less than the
// messenger's eager window, so that no chunk is announced first.
constexpr uint32_t kUnderWay = 4;

class DirectAllReduce {
 public:
  // `apart`: see narrow_all_reduce(); empty: nothing is rounded.
  DirectAllReduce(uint32_t ranks, uint32_t rank, Elements data, const std::vector<bool>& apart)
      : ranks_(ranks),
        rank_(rank),
        data_(data),
        rounds_(!apart.empty()),
        apart_(rounds_ ? apart : std::vector<bool>(ranks)),
        chunks_(chunk_count(largest_part() / data.element * (rounds_ ? kNarrow : data.element),
                            kMostMessages / ranks)) {
    const uint64_t most = chunk_of(Buffer::kSend, 0, 0).bytes / data.element;
    const auto slots = [&](bool narrow) {
      return Slots(s_, std::min(kUnderWay, chunks_), most * (narrow ? kNarrow : data.element), narrow);
    };
    peers_.resize(ranks);
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      peers_[peer].arriving = slots(apart_[peer]);
      if (!apart_[peer]) continue;
      peers_[peer].leaving = slots(true);
      peers_[peer].sums_arriving = slots(true);
    }
    if (rounds_) sums_ = slots(true);
  }

  Schedule make() && {
    for (uint32_t c = 0; c < chunks_; ++c) {
      const auto tag = static_cast<uint16_t>(2 * c);
      std::vector<Range> sources(ranks_);
      std::vector<StepId> received;
      for (uint32_t step = 1; step < ranks_; ++step) {
        give((rank_ + step) % ranks_, c, tag);
        received.push_back(take((rank_ + ranks_ - step) % ranks_, c, tag, &sources));
      }
      const StepId summed = add_up(c, std::move(sources), std::move(received));
      for (uint32_t step = 1; step < ranks_; ++step) {
        spread((rank_ + step) % ranks_, c, tag + 1, summed);
        collect((rank_ + ranks_ - step) % ranks_, c, tag + 1);
      }
    }
    return std::move(s_);
  }

 private:
  static constexpr uint64_t kNarrow = sizeof(uint16_t);
  static constexpr uint32_t kMostMessages = 1 << 15;  // of a rank in each phase; tags have 16 bits

  struct Peer {
    Slots leaving, arriving, sums_arriving;
    std::vector<StepId> given, collected;  // by chunk: kSend is not read any more; its sum has come
  };

  uint64_t largest_part() const { return part(Buffer::kSend, data_, ranks_, 0).bytes; }

  Range chunk_of(Buffer buffer, uint32_t owner, uint32_t c) const {
    return chunk(part(buffer, data_, ranks_, owner), data_.element, chunks_, c);
  }
  uint64_t narrowed(uint64_t bytes) const { return bytes / data_.element * kNarrow; }

  // This rank's contribution to the owner `dest`, which is not sent more than kUnderWay ahead of its sums.
  void give(uint32_t dest, uint32_t c, uint16_t tag) {
    Peer& peer = peers_[dest];
    const Range mine = chunk_of(Buffer::kSend, dest, c);
    std::vector<StepId> needs;
    if (c >= kUnderWay) needs.push_back(peer.collected[c - kUnderWay]);
    if (!apart_[dest]) {
      peer.given.push_back(s_.send(dest, tag, mine, std::move(needs)));
      return;
    }
    const Range rounded = peer.leaving.place(c, narrowed(mine.bytes));
    auto& before = peer.leaving.of(c);
    needs.insert(needs.end(), before.begin(), before.end());
    const StepId narrowed_copy = s_.copy(rounded, mine, std::move(needs));
    before = {s_.send(dest, tag, rounded, {narrowed_copy})};
    peer.given.push_back(narrowed_copy);
  }

  // The contribution of `from` to this rank's part.
  StepId take(uint32_t from, uint32_t c, uint16_t tag, std::vector<Range>* sources) {
    const uint64_t bytes = chunk_of(Buffer::kSend, rank_, c).bytes;
    Slots& slots = peers_[from].arriving;
    (*sources)[from] = slots.place(c, apart_[from] ? narrowed(bytes) : bytes);
    return s_.receive(from, tag, (*sources)[from], slots.of(c));
  }

  // Returns the step after which the sum is in kRecv.
  StepId add_up(uint32_t c, std::vector<Range> sources, std::vector<StepId> needs) {
    const Range mine = chunk_of(Buffer::kRecv, rank_, c);
    sources[rank_] = chunk_of(Buffer::kSend, rank_, c);
    const std::vector<StepId> received = needs;
    StepId added = 0, kept = 0;
    if (rounds_) {
      auto& before = sums_.of(c);
      needs.insert(needs.end(), before.begin(), before.end());
      const Range sum = sums_.place(c, narrowed(mine.bytes));
      added = s_.reduce(sum, std::move(sources), std::move(needs));
      kept = s_.copy(mine, sum, {added});
      before = {kept};
    } else {
      added = kept = s_.reduce(mine, std::move(sources), std::move(needs));
    }
    s_.only_reader(added, received);
    for (uint32_t peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) peers_[peer].arriving.of(c) = {added};
    return kept;
  }

  // The sum of this rank's part; where both forms travel they are the same number.
  void spread(uint32_t to, uint32_t c, uint16_t tag, StepId summed) {
    const Range mine = chunk_of(Buffer::kRecv, rank_, c);
    if (apart_[to])
      sums_.of(c).push_back(s_.send(to, tag, sums_.place(c, narrowed(mine.bytes)), {summed}));
    else
      s_.send(to, tag, mine, {summed});
  }

  void collect(uint32_t from, uint32_t c, uint16_t tag) {
    Peer& peer = peers_[from];
    const Range theirs = chunk_of(Buffer::kRecv, from, c);
    const StepId given = peer.given[c];  // in place, the sum takes the place of what was given
    if (!apart_[from]) {
      peer.collected.push_back(s_.receive(from, tag, theirs, {given}));
      return;
    }
    const Range place = peer.sums_arriving.place(c, narrowed(theirs.bytes));
    auto& before = peer.sums_arriving.of(c);
    const StepId received = s_.receive(from, tag, place, before);
    before = {s_.copy(theirs, place, {received, given})};
    s_.only_reader(before[0], {received});
    peer.collected.push_back(received);
  }

  Schedule s_;
  const uint32_t ranks_, rank_;
  const Elements data_;
  const bool rounds_;
  const std::vector<bool> apart_;
  const uint32_t chunks_;
  std::vector<Peer> peers_;  // by rank
  Slots sums_;
};

}  // namespace

Schedule direct_all_reduce(uint32_t ranks, uint32_t rank, Elements data) {
  return DirectAllReduce(ranks, rank, data, {}).make();
}

Schedule narrow_all_reduce(uint32_t ranks, uint32_t rank, Elements data, const std::vector<bool>& apart) {
  return DirectAllReduce(ranks, rank, data, apart).make();
}

}  // namespace floe
