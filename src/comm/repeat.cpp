// Small collectives that are called again and again with the same shape.
#include "comm/communicator.h"
#include "comm/descriptor.h"

namespace floe {

// A shape is prepared when it comes for the second time: callers whose shapes change pay little.
void Communicator::prepare(const Descriptor& descriptor, const DirectArgs& args) {
  const auto kind = static_cast<Kind>(descriptor.kind);
  if (kind == Kind::kAllReduce) return;
  Last& last = last_[descriptor.kind];
  const Shape shape{kind, descriptor.count, descriptor.type, descriptor.op, descriptor.root};
  if (last.shape != shape) {
    last = {shape, std::nullopt};
    ready_[descriptor.kind].store(false, std::memory_order_relaxed);
  } else if (!last.ready) {
    const auto run = group_.direct()->small_repeat(args);
    const uint64_t bytes = descriptor.count * type_size(descriptor.type);
    if (run) last.ready = {descriptor, hash(descriptor), bytes, *run};
    ready_[descriptor.kind].store(run.has_value(), std::memory_order_relaxed);
  }
}

bool Communicator::repeat(const Shape& shape, const void* send, void* recv,
                          std::shared_ptr<Operation>* late) {
  if (!ready_[static_cast<size_t>(shape.kind)].load(std::memory_order_relaxed)) return false;
  const std::lock_guard guard(engine_->lock());
  const Last& last = last_[static_cast<size_t>(shape.kind)];
  if (!last.ready || last.shape != shape || !group_.may_run_at_once()) return false;
  const Last::Ready& ready = *last.ready;
  constexpr int kLooks = 64;
  const int looks = group_.oversubscribed() ? 1 : kLooks;
  if (!ready.run.find_room(looks)) return false;
  group_.begin_small(ready.descriptor);
  ++statistics_.collectives;
  statistics_.collective_bytes += ready.bytes;
  const uint32_t all = group_.direct()->take_turn(ready.hash);
  if (ready.run(send, recv, all, looks)) [[likely]] {
    group_.end_small();
    return true;
  }
  *late = group_.continue_small(ready.descriptor, ready.run.rest(send, recv, all));
  if (*late) engine_->started(group_);
  return true;
}

bool Communicator::repeat_all_reduce(const void* send, void* recv, uint64_t count, floe_type_t type,
                                     floe_op_t op, std::shared_ptr<Operation>* late) {
  const std::lock_guard guard(engine_->lock());
  if (!last_reduce_ || !last_reduce_->run.is(count, type, op) || !last_reduce_->run.has_room()) return false;
  if (!group_.may_run_at_once()) return false;
  group_.begin_small(last_reduce_->descriptor);
  ++statistics_.collectives;
  statistics_.collective_bytes += last_reduce_->run.bytes();
  constexpr int kLooks = 64;
  const uint32_t all = group_.direct()->take_turn(last_reduce_->hash);
  if (last_reduce_->run(send, recv, all, group_.oversubscribed() ? 1 : kLooks)) {
    group_.end_small();
    return true;
  }
  *late = group_.continue_small(last_reduce_->descriptor, last_reduce_->run.rest(send, recv, all));
  if (*late) engine_->started(group_);
  return true;
}

}  // namespace floe
