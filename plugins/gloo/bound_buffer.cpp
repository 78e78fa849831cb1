#include "bound_buffer.h"

#include "context.h"
#include "errors.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

BoundBuffer::BoundBuffer(std::shared_ptr<Context> context, int peer, int slot, void* ptr, size_t size,
                         Role role)
    : abi::Buffer(slot, ptr, size),
      context_(std::move(context)),
      peer_(peer),
      target_(role == Role::kReceiver ? std::make_shared<Target>(Target{static_cast<char*>(ptr), size})
                                      : nullptr) {
  context_->group().check_peer(peer);
  Courier& courier = context_->group().courier();
  if (target_) courier.open(peer, slot, target_);
}

BoundBuffer::~BoundBuffer() {
  const bool free = !target_ || context_->group().courier().close(peer_, slot_);
  if (!free || !sends_.settled()) context_->group().abort();
}

void BoundBuffer::send(size_t offset, size_t length, size_t roffset) {
  if (offset > size_ || length > size_ - offset) throw_outside(offset, length, size_);
  sends_.add(
      context_->group().courier().write(peer_, slot_, static_cast<char*>(ptr_) + offset, length, roffset),
      peer_);
}

void BoundBuffer::waitRecv() {
  if (!target_) throw ::gloo::InvalidOperationException(title("recv from") + ": this is a send buffer");
  if (!context_->group().courier().wait(*target_, context_->timeout_)) time_out("recv");
}

void BoundBuffer::waitSend() {
  const PendingOperations::Result result = sends_.wait(context_->timeout_);
  if (result.outcome == PendingOperations::Outcome::kFailed) {
    throw ::gloo::IoException(title("send to") + ": " + result.message);
  }
  if (result.outcome != PendingOperations::Outcome::kCompleted) time_out("send");
}

void BoundBuffer::time_out(const char* what) const {
  context_->group().abort();
  throw ::gloo::IoException(title(target_ ? "recv from" : "send to") + ": Timed out waiting " +
                            std::to_string(context_->timeout_.count()) + "ms for " + what +
                            " operation to complete");
}

std::string BoundBuffer::title(const char* what) const {
  return "floe: rank " + std::to_string(context_->rank) + ": " + what + " rank " + std::to_string(peer_) +
         ", slot " + std::to_string(slot_);
}

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
