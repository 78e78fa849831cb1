#include "shm/small_reduce.h"

#include <array>

namespace floe {

SmallReduce::SmallReduce(const LocalRanks& ranks, SmallExchange::State& state, uint64_t count, int type,
                         int op)
    : ranks_(&ranks),
      state_(&state),
      count_(count),
      type_(type),
      op_(op),
      bytes_(count * type_size(type)),
      way_(SmallExchange::way(pattern::kAllReduce, bytes_, ranks.size(), true)),
      reduction_(count, type, op, ranks.size()) {}

bool SmallReduce::operator()(const void* send, void* recv, uint32_t hash, int looks) const {
  const uint32_t self = ranks_->self(), n = ranks_->size();
  const uint64_t turn = state_->publish(*ranks_, send, bytes_, hash, way_);
  const uint64_t wanted = Flag::word(turn, hash);
  std::array<const void*, kMostRanks> sources;
  for (uint32_t rank = 0; rank < n; ++rank) {
    const SmallSlot slot((*ranks_)[rank], turn, way_);
    sources[rank] = rank == self ? send : state_->data(*ranks_, rank, turn, bytes_, way_);
    if (!slot.wait(wanted, SmallSlot::begin(bytes_) + bytes_, looks)) return false;
    state_->seen[rank] = turn;
  }
  reduction_(recv, sources.data());
  for (uint32_t rank = 0; rank < n; ++rank)
    if (rank != self)
      SmallSlot((*ranks_)[rank], turn, way_).pass_on(way_ == SmallWay::kExchanged ? 0 : bytes_);
  return true;
}

SmallExchange SmallReduce::rest(const void* send, void* recv, uint32_t hash) const {
  return {*ranks_, *state_, {pattern::kAllReduce, send, recv, count_, type_, op_, 0, hash}, state_->turn};
}

}  // namespace floe
