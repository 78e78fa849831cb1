// A Gloo pair: one peer of a context.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gloo_abi.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

namespace abi = gloo_abi::FLOE_GLOO_ABI;

class Context;

class Address final : public abi::Address {
 public:
  explicit Address(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
  std::string str() const override { return "floe " + std::string(bytes_.data()); }
  std::vector<char> bytes() const override { return bytes_; }

 private:
  std::vector<char> bytes_;  // end with zeros
};

class Pair final : public abi::Pair {
 public:
  // `context` owns the pair.
  Pair(Context& context, int peer) : context_(context), peer_(peer) {}

  const abi::Address& address() const override;
  // The last of a context's pairs waits until all ranks are connected.
  void connect(const std::vector<char>& bytes) override;
  void close() override;
  void setSync(bool, bool) override {}  // advice about how to wait
  std::unique_ptr<abi::Buffer> createSendBuffer(int slot, void* ptr, size_t size) override;
  std::unique_ptr<abi::Buffer> createRecvBuffer(int slot, void* ptr, size_t size) override;
#if FLOE_GLOO_REVISION >= 3
  bool isConnected() override;
#endif
  void send(abi::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) override;
  void recv(abi::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) override;
#if FLOE_GLOO_REVISION >= 4
  void put(abi::UnboundBuffer* buffer, const abi::RemoteKey& key, uint64_t slot, size_t offset,
           size_t roffset, size_t nbytes) override;
  void get(abi::UnboundBuffer* buffer, const abi::RemoteKey& key, uint64_t slot, size_t offset,
           size_t roffset, size_t nbytes) override;
#endif

 private:
  Context& context_;
  int peer_;
  mutable std::unique_ptr<Address> address_;  // made by the first call
};

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
