// A Gloo transport context: a group of ranks, and the pairs and buffers that use it.
#pragma once

#include <memory>
#include <string>

#include "device.h"
#include "gloo_abi.h"
#include "group.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

class Context final : public abi::Context, public std::enable_shared_from_this<Context> {
 public:
  Context(std::shared_ptr<const Device> device, int rank, int size);

  std::unique_ptr<abi::Pair>& getPair(int rank) override;
  std::unique_ptr<abi::Pair>& createPair(int rank) override;
#if FLOE_GLOO_REVISION == 2
  void createAndConnectAllPairs(abi::IStore& store) override;
#elif FLOE_GLOO_REVISION >= 3
  void createAndConnectAllPairs(std::shared_ptr<abi::IStore> store) override;
#endif
  std::unique_ptr<abi::UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) override;
#if FLOE_GLOO_REVISION >= 4
  std::unique_ptr<abi::RemoteKey> deserializeRemoteKey(const std::string& bytes) override;
#endif

  Group& group() { return group_; }

 private:
  std::shared_ptr<const Device> device_;
  Group group_;
};

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
