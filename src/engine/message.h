// The caller's point-to-point operation: one transfer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/messenger.h"
#include "engine/operation.h"

namespace floe {

class MessageOperation;

// Messages that have ended and that nobody has been told of, in that order: a pass costs what has ended, not
// what is under way. Their chain runs through them, so that to end allocates nothing.
class EndedMessages {
 public:
  void add(MessageOperation& message);
  MessageOperation* take();  // null: there is none
  void clear() { first_ = last_ = nullptr; }

 private:
  MessageOperation* first_ = nullptr;
  MessageOperation* last_ = nullptr;
};

class MessageOperation final : public Operation, private TransferOwner {
 public:
  MessageOperation(const Descriptor& descriptor, Transfer transfer)
      : Operation(descriptor), transfer_(std::move(transfer)) {
    transfer_.owner = this;
  }

  Transfer& transfer() { return transfer_; }
  const Transfer& transfer() const { return transfer_; }
  // Before it is sent or received: `place` is where its group keeps it.
  void started_at(size_t place, EndedMessages& ended) {
    place_ = place;
    list_ = &ended;
  }
  // Instead: it was sent at once.
  void finish_sent() {
    source = transfer_.peer;
    bytes = transfer_.bytes;
    finish(Status());
  }
  void move_to(size_t place) { place_ = place; }
  size_t place() const { return place_; }

  bool waits_for(uint32_t rank) const override {
    if (ended_) return false;
    const auto& any = transfer_.sources;
    return any.empty() ? transfer_.peer == rank : std::find(any.begin(), any.end(), rank) != any.end();
  }
  // One of the ranks that it waits for is enough.
  bool from_several() const { return transfer_.sources.size() > 1; }

 private:
  void on_transfer(Transfer& transfer) override {
    ended_ = true;
    source = transfer.peer;
    bytes = transfer.bytes;
    list_->add(*this);
  }

  friend class EndedMessages;
  Transfer transfer_;
  bool ended_ = false;
  size_t place_ = 0;
  EndedMessages* list_ = nullptr;
  MessageOperation* next_ended_ = nullptr;
};

inline void EndedMessages::add(MessageOperation& message) {
  (first_ ? last_->next_ended_ : first_) = &message;
  last_ = &message;
}

inline MessageOperation* EndedMessages::take() {
  return first_ ? std::exchange(first_, first_->next_ended_) : nullptr;
}

}  // namespace floe
