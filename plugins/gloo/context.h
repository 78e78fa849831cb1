// A Gloo transport context: one floe communicator, and the pairs and buffers that use it.
#pragma once

#include <floe/floe.h>

#include <memory>
#include <string>

#include "device.h"
#include "gloo_abi_r4.h"

namespace floe::gloo_transport {

class Context final : public gloo_abi::r4::Context, public std::enable_shared_from_this<Context> {
 public:
  Context(std::shared_ptr<const Device> device, int rank, int size);

  std::unique_ptr<gloo_abi::r4::Pair>& getPair(int rank) override;
  std::unique_ptr<gloo_abi::r4::Pair>& createPair(int rank) override;
  void createAndConnectAllPairs(std::shared_ptr<gloo_abi::r4::IStore> store) override;
  std::unique_ptr<gloo_abi::r4::UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) override;
  std::unique_ptr<gloo_abi::r4::RemoteKey> deserializeRemoteKey(const std::string& bytes) override;

  bool connected() const { return comm_ != nullptr; }
  // Throws InvalidOperationException before createAndConnectAllPairs.
  floe_comm_t* comm() const;
  // Throws InvalidOperationException unless `peer` is another rank of this context.
  void check_peer(int peer) const;
  // Ends all operations on all ranks. Afterwards no buffer is touched any more.
  void abort() const;

 private:
  struct DestroyComm {
    void operator()(floe_comm_t* comm) const { (void)floe_comm_destroy(comm); }
  };

  std::shared_ptr<const Device> device_;
  std::unique_ptr<floe_comm_t, DestroyComm> comm_;
};

}  // namespace floe::gloo_transport
