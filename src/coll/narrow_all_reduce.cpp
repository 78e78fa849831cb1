#include <algorithm>
#include <array>

#include "coll/algorithms.h"

namespace floe {
namespace {

// Chunks of each part that may be under way at a time: enough to hide the latency, and few enough that a sum
// is not held up behind many contributions. (25 MiB on 2 hosts at 1 Gbit/s: 2, 4, 8, 16 take 126, 118, 121,
// 125 ms.)
constexpr uint32_t kUnderWay = 4;

// The slots of a chunk in turn, and the steps that must have ended before slot i is used again.
struct Slots {
  std::vector<Range> places;
  std::vector<std::vector<StepId>> users;

  Range place(uint32_t chunk, uint64_t elements, uint64_t element) const {
    Range range = places[chunk % places.size()];
    range.bytes = elements * element;
    return range;
  }
  std::vector<StepId>& of(uint32_t chunk) { return users[chunk % users.size()]; }
};

class NarrowAllReduce {
 public:
  NarrowAllReduce(uint32_t ranks, uint32_t rank, Elements data, const std::vector<bool>& apart)
      : ranks_(ranks), rank_(rank), data_(data), apart_(apart), chunks_(chunk_count(ranks, data)) {
    const uint64_t most = chunk(Buffer::kSend, 0, 0).bytes / kWide;
    leaving_.resize(ranks);
    arriving_.resize(ranks);
    sums_arriving_.resize(ranks);
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      arriving_[peer] = slots(most, apart_[peer]);
      if (!apart_[peer]) continue;
      leaving_[peer] = slots(most, true);
      sums_arriving_[peer] = slots(most, true);
    }
    sums_ = slots(most, true);
    given_.resize(ranks);
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
      const StepId kept = add_up(c, std::move(sources), std::move(received));
      for (uint32_t step = 1; step < ranks_; ++step) {
        spread((rank_ + step) % ranks_, c, tag + 1, kept);
        collect((rank_ + ranks_ - step) % ranks_, c, tag + 1);
      }
    }
    return std::move(s_);
  }

 private:
  static constexpr uint64_t kWide = sizeof(float), kNarrow = sizeof(uint16_t);

  // A packet of 64 KiB each, or 1/1024 of a part.
  static uint32_t chunk_count(uint32_t ranks, Elements data) {
    constexpr uint64_t kPacket = 64 << 10, kMost = 1024;
    const uint64_t bytes = part(Buffer::kSend, data, ranks, 0).bytes / kWide * kNarrow;
    return static_cast<uint32_t>(std::clamp<uint64_t>((bytes + kPacket - 1) / kPacket, 1, kMost));
  }

  // Chunk `c` of the part of `owner`; chunk 0 of part 0 is one of the largest.
  Range chunk(Buffer buffer, uint32_t owner, uint32_t c) const {
    const Range whole = part(buffer, data_, ranks_, owner);
    Range range = part(buffer, {whole.bytes / kWide, kWide}, chunks_, c);
    range.offset += whole.offset;
    return range;
  }

  Slots slots(uint64_t elements, bool narrow) {
    const uint32_t count = std::min(kUnderWay, chunks_);
    Slots made{{}, std::vector<std::vector<StepId>>(count)};
    for (uint32_t i = 0; i < count; ++i)
      made.places.push_back({Buffer::kScratch, s_.scratch(elements * (narrow ? kNarrow : kWide)), 0, narrow});
    return made;
  }

  // This rank's contribution to the owner `dest`.
  void give(uint32_t dest, uint32_t c, uint16_t tag) {
    const Range mine = chunk(Buffer::kSend, dest, c);
    if (!apart_[dest]) {
      given_[dest].push_back(s_.send(dest, tag, mine));
      return;
    }
    const Range rounded = leaving_[dest].place(c, mine.bytes / kWide, kNarrow);
    const StepId narrowed = s_.copy(rounded, mine, leaving_[dest].of(c));
    leaving_[dest].of(c) = {s_.send(dest, tag, rounded, {narrowed})};
    given_[dest].push_back(narrowed);  // from now on kSend is not read
  }

  // The contribution of `from` to this rank's part.
  StepId take(uint32_t from, uint32_t c, uint16_t tag, std::vector<Range>* sources) {
    const uint64_t elements = chunk(Buffer::kSend, rank_, c).bytes / kWide;
    const Range place = arriving_[from].place(c, elements, apart_[from] ? kNarrow : kWide);
    (*sources)[from] = place;
    return s_.receive(from, tag, place, arriving_[from].of(c));
  }

  // Returns the step after which the sum is in kRecv.
  StepId add_up(uint32_t c, std::vector<Range> sources, std::vector<StepId> needs) {
    const Range mine = chunk(Buffer::kRecv, rank_, c);
    sources[rank_] = chunk(Buffer::kSend, rank_, c);
    auto& before = sums_.of(c);
    needs.insert(needs.end(), before.begin(), before.end());
    const Range sum = sums_.place(c, mine.bytes / kWide, kNarrow);
    const StepId added = s_.reduce(sum, std::move(sources), std::move(needs));
    for (uint32_t peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) arriving_[peer].of(c) = {added};
    const StepId kept = s_.copy(mine, sum, {added});
    before = {kept};
    return kept;
  }

  // The sum of this rank's part, in either form the same number.
  void spread(uint32_t to, uint32_t c, uint16_t tag, StepId kept) {
    const Range mine = chunk(Buffer::kRecv, rank_, c);
    if (apart_[to])
      sums_.of(c).push_back(s_.send(to, tag, sums_.place(c, mine.bytes / kWide, kNarrow), {kept}));
    else
      s_.send(to, tag, mine, {kept});
  }

  void collect(uint32_t from, uint32_t c, uint16_t tag) {
    const Range theirs = chunk(Buffer::kRecv, from, c);
    const StepId given = given_[from][c];  // in place, the sum takes the place of what was given
    if (!apart_[from]) {
      s_.receive(from, tag, theirs, {given});
      return;
    }
    const Range place = sums_arriving_[from].place(c, theirs.bytes / kWide, kNarrow);
    const StepId received = s_.receive(from, tag, place, sums_arriving_[from].of(c));
    sums_arriving_[from].of(c) = {s_.copy(theirs, place, {received, given})};
  }

  Schedule s_;
  const uint32_t ranks_, rank_;
  const Elements data_;
  const std::vector<bool>& apart_;
  const uint32_t chunks_;
  std::vector<Slots> leaving_, arriving_, sums_arriving_;  // by peer
  Slots sums_;
  std::vector<std::vector<StepId>> given_;  // by peer and chunk
};

}  // namespace

Schedule narrow_all_reduce(uint32_t ranks, uint32_t rank, Elements data, const std::vector<bool>& apart) {
  return NarrowAllReduce(ranks, rank, data, apart).make();
}

}  // namespace floe
