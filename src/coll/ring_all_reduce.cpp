#include "coll/chunks.h"

namespace floe {
namespace {

class RingAllReduce {
 public:
  RingAllReduce(uint32_t ranks, uint32_t rank, Elements data)
      : ranks_(ranks),
        rank_(rank),
        data_(data),
        chunks_(chunk_count(part(Buffer::kSend, data, ranks, 0).bytes, kTags / (2 * ranks))),
        slots_(s_, kUnderWay, chunk_of(Buffer::kSend, 0, 0).bytes, false),
        have_(chunks_),
        left_(size_t{ranks} * chunks_) {}

  Schedule make() && {
    for (uint32_t step = 0; step + 1 < ranks_; ++step)
      for (uint32_t c = 0; c < chunks_; ++c) scatter(step, c);
    for (uint32_t step = 0; step + 1 < ranks_; ++step)
      for (uint32_t c = 0; c < chunks_; ++c) gather(step, c);
    return std::move(s_);
  }

 private:
  // Chunks that are sent before the first has come.
  static constexpr uint32_t kUnderWay = 12;
  static constexpr uint32_t kTags = 0xFFFF;

  uint32_t next() const { return (rank_ + 1) % ranks_; }
  uint32_t previous() const { return (rank_ + ranks_ - 1) % ranks_; }
  uint32_t before(uint32_t steps) const { return (rank_ + ranks_ - steps) % ranks_; }
  Range chunk_of(Buffer buffer, uint32_t owner, uint32_t c) const {
    return chunk(part(buffer, data_, ranks_, owner), data_.element, chunks_, c);
  }
  uint16_t tag(uint32_t step, uint32_t c) const { return static_cast<uint16_t>(step * chunks_ + c); }

  // What the send of a turn waits for: what it passes on, and the receive kUnderWay turns before, so that all
  // ranks' messages go in one order, at one pace, into receives that are posted.
  std::vector<StepId> needs(uint32_t step, uint32_t c) const {
    const uint32_t turn = step * chunks_ + c;
    std::vector<StepId> result;
    if (step != 0) result.push_back(have_[c]);
    if (turn >= kUnderWay) result.push_back(received_[turn - kUnderWay]);
    return result;
  }

  // Passes on the part of the rank `step` before this one, and adds this rank's to the one before that.
  void scatter(uint32_t step, uint32_t c) {
    const uint32_t out = before(step), in = before(step + 1);
    left_[out * chunks_ + c] = s_.send(
        next(), tag(step, c), chunk_of(step == 0 ? Buffer::kSend : Buffer::kRecv, out, c), needs(step, c));

    const uint32_t turn = step * chunks_ + c;
    const Range sum = chunk_of(Buffer::kRecv, in, c), arrived = slots_.place(turn, sum.bytes);
    received_.push_back(s_.receive(previous(), tag(step, c), arrived, slots_.of(turn)));
    const bool last = step + 2 == ranks_;
    have_[c] = s_.reduce(sum, {arrived, chunk_of(Buffer::kSend, in, c)}, {received_.back()}, !last);
    s_.only_reader(have_[c], {received_.back()});
    slots_.of(turn) = {have_[c]};
  }

  // Passes on the sum that came last, the first time its own, and takes the next.
  void gather(uint32_t step, uint32_t c) {
    const uint32_t out = (before(step) + 1) % ranks_, in = before(step);
    const uint32_t whole = ranks_ - 1 + step;
    s_.send(next(), tag(whole, c), chunk_of(Buffer::kRecv, out, c), needs(whole, c));
    have_[c] =
        s_.receive(previous(), tag(whole, c), chunk_of(Buffer::kRecv, in, c), {left_[in * chunks_ + c]});
    received_.push_back(have_[c]);
  }

  Schedule s_;
  const uint32_t ranks_, rank_;
  const Elements data_;
  const uint32_t chunks_;
  Slots slots_;
  std::vector<StepId> have_;      // by chunk: what is passed on next is there
  std::vector<StepId> received_;  // by turn
  std::vector<StepId> left_;      // by part and chunk: what was there of it has been sent
};

}  // namespace

Schedule ring_all_reduce(uint32_t ranks, uint32_t rank, Elements data) {
  if (ranks == 1) return exchange_all_reduce(ranks, rank, data);
  return RingAllReduce(ranks, rank, data).make();
}

}  // namespace floe
