// Memory that messages of any peer are sent from or received into.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gloo_abi.h"
#include "pending_operations.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

namespace abi = gloo_abi::FLOE_GLOO_ABI;

class Context;

// Any thread may call any function. Destroying it with an operation under way aborts the context: floe can
// take back no single operation, and the memory must not be touched afterwards.
class UnboundBuffer final : public abi::UnboundBuffer {
 public:
  UnboundBuffer(std::shared_ptr<Context> context, void* ptr, size_t size);
  ~UnboundBuffer() override;

  bool waitRecv(int* rank, abi::Millis timeout) override;
  bool waitSend(int* rank, abi::Millis timeout) override;
  void abortWaitRecv() override { receives_.abort_wait(); }
  void abortWaitSend() override { sends_.abort_wait(); }
  void send(int dstRank, uint64_t slot, size_t offset, size_t nbytes) override;
  void recv(int srcRank, uint64_t slot, size_t offset, size_t nbytes) override;
  void recv(std::vector<int> srcRanks, uint64_t slot, size_t offset, size_t nbytes) override;
#if FLOE_GLOO_REVISION >= 4
  std::unique_ptr<abi::RemoteKey> getRemoteKey() const override;
  void put(const abi::RemoteKey& key, uint64_t slot, size_t offset, size_t roffset, size_t nbytes) override;
  void get(const abi::RemoteKey& key, uint64_t slot, size_t offset, size_t roffset, size_t nbytes) override;
#endif

 private:
  struct Part {
    char* data;
    size_t bytes;
  };
  enum class Direction { kSend, kRecv };
  Part part(size_t offset, size_t nbytes) const;
  void check_slot(uint64_t slot) const;
  bool wait(Direction direction, int* rank, abi::Millis timeout);
  // "floe: rank 0: recv from rank 1".
  std::string title(Direction direction, int peer) const;

  std::shared_ptr<Context> context_;
  PendingOperations sends_;
  PendingOperations receives_;
#if FLOE_GLOO_REVISION >= 4
  Part part(const abi::RemoteKey& key, size_t offset, size_t roffset, size_t nbytes) const;

  mutable std::once_flag exposed_;
  mutable uint64_t key_ = 0;  // 0: no other rank reads or writes the memory
#endif
};

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
