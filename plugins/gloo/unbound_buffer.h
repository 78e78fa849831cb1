// Memory that messages of any peer are sent from or received into.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gloo_abi_r4.h"
#include "pending_operations.h"

namespace floe::gloo_transport {

class Context;

// Any thread may call any function. Destroying it with an operation under way aborts the context: floe can
// take back no single operation, and the memory must not be touched afterwards.
class UnboundBuffer final : public gloo_abi::r4::UnboundBuffer {
 public:
  UnboundBuffer(std::shared_ptr<Context> context, void* ptr, size_t size);
  ~UnboundBuffer() override;

  bool waitRecv(int* rank, gloo_abi::r4::Millis timeout) override;
  bool waitSend(int* rank, gloo_abi::r4::Millis timeout) override;
  void abortWaitRecv() override { receives_.abort_wait(); }
  void abortWaitSend() override { sends_.abort_wait(); }
  void send(int dstRank, uint64_t slot, size_t offset, size_t nbytes) override;
  void recv(int srcRank, uint64_t slot, size_t offset, size_t nbytes) override;
  void recv(std::vector<int> srcRanks, uint64_t slot, size_t offset, size_t nbytes) override;
  std::unique_ptr<gloo_abi::r4::RemoteKey> getRemoteKey() const override;
  void put(const gloo_abi::r4::RemoteKey& key, uint64_t slot, size_t offset, size_t roffset,
           size_t nbytes) override;
  void get(const gloo_abi::r4::RemoteKey& key, uint64_t slot, size_t offset, size_t roffset,
           size_t nbytes) override;

 private:
  struct Part {
    char* data;
    size_t bytes;
  };
  enum class Direction { kSend, kRecv };
  Part part(size_t offset, size_t nbytes) const;
  bool wait(Direction direction, int* rank, gloo_abi::r4::Millis timeout);
  // "floe: rank 0: recv from rank 1".
  std::string title(Direction direction, int peer) const;

  std::shared_ptr<Context> context_;
  PendingOperations sends_;
  PendingOperations receives_;
};

}  // namespace floe::gloo_transport
