// Memory bound to one peer and slot, which the peer writes to, or which is written to the peer's. Gloo's
// older algorithms use it; a sender need not wait until the receiver has made its buffer.
#pragma once

#include <memory>
#include <string>

#include "courier.h"
#include "gloo_abi.h"
#include "pending_operations.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

namespace abi = gloo_abi::FLOE_GLOO_ABI;

class Context;

// Any thread may call any function. Destroying it with a message under way aborts the context, as with
// UnboundBuffer.
class BoundBuffer final : public abi::Buffer {
 public:
  enum class Role { kSender, kReceiver };
  BoundBuffer(std::shared_ptr<Context> context, int peer, int slot, void* ptr, size_t size, Role role);
  ~BoundBuffer() override;

  void setDebug(bool debug) override { debug_ = debug; }  // FLOE_LOG says more
  void send(size_t offset, size_t length, size_t roffset) override;
  void waitRecv() override;
  void waitSend() override;

 private:
  // "floe: rank 0: recv from rank 1, slot 2".
  std::string title(const char* what) const;
  [[noreturn]] void time_out(const char* what) const;

  const std::shared_ptr<Context> context_;
  const int peer_;
  const std::shared_ptr<Target> target_;  // of a receiver
  PendingOperations sends_;
};

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
