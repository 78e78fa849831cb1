#include "engine/collective.h"

#include <utility>

namespace floe {

ScheduledCollective::ScheduledCollective(const Descriptor& descriptor, Schedule schedule, const void* send,
                                         void* recv, uint32_t ranks, DirectPath* direct)
    : Collective(descriptor),
      schedule_(std::move(schedule)),
      scratch_(std::make_unique_for_overwrite<std::byte[]>(schedule_.scratch_bytes())),
      buffers_{static_cast<std::byte*>(const_cast<void*>(send)),  // only ever read
               static_cast<std::byte*>(recv), scratch_.get()},
      arithmetic_{descriptor.type, descriptor.op, ranks, {}},
      direct_(direct),
      hash_(hash(descriptor)) {
  const auto& steps = schedule_.steps();
  transfers_.resize(steps.size());
  missing_.resize(steps.size());
  then_.resize(steps.size());
  under_way_.resize(steps.size());
  ready_.reserve(steps.size());
  for (StepId id = 0; id < steps.size(); ++id) {
    missing_[id] = static_cast<uint32_t>(steps[id].needs.size());
    for (const StepId need : steps[id].needs) then_[need].push_back(id);
    if (missing_[id] == 0) ready_.push_back(id);
  }
}

void ScheduledCollective::set_factor(uint64_t at, uint32_t rank, double factor) {
  auto* const factors = reinterpret_cast<double*>(scratch_.get() + at);  // at a multiple of 64
  factors[rank] = factor;
  arithmetic_.factors = {factors, arithmetic_.ranks};
}

Poll ScheduledCollective::step(Messenger& messenger) {
  if (direct_ && !entered_) direct_->enter(sequence(), hash_);
  entered_ = true;
  const size_t before = ended_;
  const bool started = started_ < ready_.size();
  messenger_ = &messenger;
  start_ready();
  if (ended_ == schedule_.steps().size()) {
    const Poll agreed = agree();
    if (agreed != Poll::kPending) return agreed;
  }
  return started || ended_ != before ? Poll::kMoved : Poll::kPending;
}

Poll ScheduledCollective::agree() {
  for (; direct_ && agreed_ < direct_->ranks(); ++agreed_) {
    if (agreed_ == direct_->self()) continue;
    const DirectPath::Entry entry = direct_->entry(agreed_, sequence(), hash_);
    if (entry == DirectPath::Entry::kAbsent) return Poll::kPending;
    mismatch_with_ = agreed_;
    if (entry == DirectPath::Entry::kDifferent) return Poll::kMismatch;
  }
  return Poll::kDone;
}

void ScheduledCollective::start_ready() {
  if (std::exchange(starting_, true)) return;
  while (started_ < ready_.size()) start(ready_[started_++]);
  starting_ = false;
}

void ScheduledCollective::start(StepId id) {
  const Step& step = schedule_.steps()[id];
  if (step.kind == Step::Kind::kReduce || step.kind == Step::Kind::kCopy) {
    run_local(step, buffers_, arithmetic_);
    end(id);
    return;
  }
  Transfer& transfer = transfers_[id];
  transfer.data = at(buffers_, step.range);
  transfer.bytes = step.range.bytes;
  transfer.peer = step.peer;
  transfer.tag = sequence() << 16 | step.tag;
  transfer.descriptor = descriptor();
  transfer.owner = this;
  under_way_[id] = true;
  if (step.kind == Step::Kind::kSend)
    messenger_->send(transfer);
  else
    messenger_->receive(transfer);
}

void ScheduledCollective::on_message(Transfer& receive, std::span<const std::byte> payload, CopyIn& copy_in) {
  const Step& step = schedule_.steps()[static_cast<size_t>(&receive - transfers_.data())];
  const StepId reader = step.reader;
  if (reader == 0 || missing_[reader] != 1) {
    TransferOwner::on_message(receive, payload, copy_in);
  } else {
    run_local(schedule_.steps()[reader], buffers_, arithmetic_, {step.range, payload.data()});
    ++missing_[reader];  // it has run, and does not become ready
    on_transfer(receive);
    end(reader);
  }
  start_ready();  // what is passed on is still in the cache
}

void ScheduledCollective::on_transfer(Transfer& transfer) {
  const auto id = static_cast<StepId>(&transfer - transfers_.data());
  under_way_[id] = false;
  end(id);
}

void ScheduledCollective::end(StepId id) {
  ++ended_;
  for (const StepId next : then_[id])
    if (--missing_[next] == 0) ready_.push_back(next);
}

bool ScheduledCollective::waits_for(uint32_t rank) const {
  const auto& steps = schedule_.steps();
  for (StepId id = 0; id < steps.size(); ++id)
    if (under_way_[id] && steps[id].peer == rank) return true;
  return direct_ && ended_ == steps.size() && rank >= agreed_ && rank != direct_->self() &&
         direct_->entry(rank, sequence(), hash_) == DirectPath::Entry::kAbsent;
}

}  // namespace floe
