// The caller's point-to-point operation: one transfer.
#pragma once

#include <algorithm>

#include "engine/messenger.h"
#include "engine/operation.h"

namespace floe {

class MessageOperation final : public Operation, private TransferOwner {
 public:
  MessageOperation(const Descriptor& descriptor, Transfer transfer)
      : Operation(descriptor), transfer_(std::move(transfer)) {
    transfer_.owner = this;
  }

  Transfer& transfer() { return transfer_; }
  bool ended() const { return ended_; }

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
  }

  Transfer transfer_;
  bool ended_ = false;
};

}  // namespace floe
