#include "shm/small_repeat.h"

#include <array>

namespace floe {

SmallRepeat::SmallRepeat(const LocalRanks& ranks, SmallExchange::State& state, const DirectArgs& shape)
    : ranks_(&ranks), state_(&state), shape_(shape) {
  const uint32_t self = ranks.self(), n = ranks.size();
  const Movement what(shape, n, self);
  const bool from_root = shape.pattern.publish == Pattern::Ranks::kRoot;
  block_ = what.block_bytes();
  publishes_ = what.publishes(self);
  own_offset_ = shape.pattern.block_each ? self * block_ : 0;
  one_block_ = !publishes_ || what.blocks_in_slot() == 1;
  sent_offset_ = publishes_ && shape.pattern.block_each && self == 0 ? block_ : 0;
  recv_stride_ = shape.pattern.reduces || from_root ? 0 : block_;
  begin_ = from_root ? shape.root : 0;
  end_ = from_root ? shape.root + 1 : n;
  if (!what.reads(self)) end_ = begin_;
  keeps_own_ = !shape.pattern.reduces && what.keeps_own();
  slot_bytes_ = what.blocks_in_slot() * block_;
  way_ = SmallExchange::way(shape.pattern, slot_bytes_, n, begin_ != end_);
  if (shape.pattern.reduces && what.reads(self)) reduction_.emplace(shape.count, shape.type, shape.op, n);
}

uint64_t SmallRepeat::publish(const void* send, uint32_t hash) const {
  const auto* const from = static_cast<const std::byte*>(send);
  if (one_block_) return state_->publish(*ranks_, from + sent_offset_, publishes_ ? block_ : 0, hash, way_);
  const uint32_t self = ranks_->self(), n = ranks_->size();
  std::byte* const slot = state_->begin(*ranks_, slot_bytes_, way_);
  for (uint32_t reader = 0; reader < n; ++reader)
    if (reader != self)
      copy_small(slot + Movement::place(shape_.pattern, self, reader) * block_, from + reader * block_,
                 block_);
  return state_->end(*ranks_, slot_bytes_, hash, way_);
}

bool SmallRepeat::operator()(const void* send, void* recv, uint32_t hash, int looks) const {
  const uint32_t self = ranks_->self();
  const uint64_t turn = publish(send, hash);
  const uint64_t wanted = Flag::word(turn, hash);
  const auto* const own = static_cast<const std::byte*>(send) + own_offset_;
  auto* const to = static_cast<std::byte*>(recv);
  if (keeps_own_ && to + self * recv_stride_ != own) copy_small(to + self * recv_stride_, own, block_);
  std::array<const void*, kMostRanks> sources;
  for (uint32_t rank = begin_; rank < end_; ++rank) {
    sources[rank] = own;
    if (rank == self) continue;
    const SmallSlot slot((*ranks_)[rank], turn, way_);
    const uint64_t offset = slot_offset(rank);
    if (!slot.wait(wanted, offset == 0 ? SmallSlot::begin(slot_bytes_) + block_ : 0, looks)) return false;
    state_->seen[rank] = turn;
    const std::byte* const data = state_->data(*ranks_, rank, turn, slot_bytes_, way_) + offset;
    sources[rank] = data;
    if (reduction_) continue;
    std::byte* const kept = to + rank * recv_stride_;
    if (way_ == SmallWay::kExchanged) {
      copy_from_exchange(kept, data, block_);
    } else {
      copy_from_slot(kept, data, block_);
    }
  }
  if (reduction_) (*reduction_)(recv, sources.data());
  return true;
}

SmallExchange SmallRepeat::rest(const void* send, void* recv, uint32_t hash) const {
  DirectArgs args = shape_;
  args.send = send;
  args.recv = recv;
  args.hash = hash;
  return {*ranks_, *state_, args, state_->turn};
}

}  // namespace floe
