#include "engine/crowd.h"

namespace floe {

void Crowd::add(const CpuBoard& peer) {
  const std::lock_guard guard(mutex_);
  peers_.push_back(&peer);
}

void Crowd::remove(const CpuBoard& peer) {
  const std::lock_guard guard(mutex_);
  const auto found = std::find(peers_.begin(), peers_.end(), &peer);
  if (found != peers_.end()) peers_.erase(found);
}

bool Crowd::was_others(uint32_t cpu, Clock::time_point before, Clock::time_point after) {
  const std::lock_guard guard(mutex_);
  // Another rank was back before this one, and saw.
  for (const CpuBoard* peer : peers_)
    if (const CpuNote slice = peer->slice(); slice.is_of(cpu) && slice.since(before)) return true;
  for (const CpuBoard* peer : peers_) {
    const CpuNote last = peer->last();
    if (last.is_of(cpu) && (!last.waits() || last.since(after - kSlice))) return false;
  }
  return true;
}

void Crowd::came_back(uint32_t cpu, Clock::time_point before, Clock::time_point after) {
  if (!was_others(cpu, before, after)) return;
  own_->set_slice({after, cpu, true});
  // A third of the time since the last such slice, or more.
  if (before.time_since_epoch() - last_.load(std::memory_order_relaxed) < 2 * (after - before))
    until_.store((after + kRemembered).time_since_epoch(), std::memory_order_relaxed);
  last_.store(after.time_since_epoch(), std::memory_order_relaxed);
}

}  // namespace floe
