// A Gloo pair: one peer of a context.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gloo_abi_r4.h"

namespace floe::gloo_transport {

class Context;

class PairAddress final : public gloo_abi::r4::Address {
 public:
  explicit PairAddress(int rank) : rank_(rank) {}
  std::string str() const override { return "floe rank " + std::to_string(rank_); }
  std::vector<char> bytes() const override;

 private:
  int rank_;
};

// Carries unbound buffers only: a communicator is connected as a whole, so a pair can't be by itself,
// and no host that takes its devices from PyTorch's registry uses bound buffers or one-sided access.
class Pair final : public gloo_abi::r4::Pair {
 public:
  // `context` owns the pair.
  Pair(Context& context, int peer) : context_(context), peer_(peer), address_(peer) {}

  const gloo_abi::r4::Address& address() const override { return address_; }
  void connect(const std::vector<char>& bytes) override;
  void close() override;
  void setSync(bool, bool) override {}  // advice about how to wait
  std::unique_ptr<gloo_abi::r4::Buffer> createSendBuffer(int slot, void* ptr, size_t size) override;
  std::unique_ptr<gloo_abi::r4::Buffer> createRecvBuffer(int slot, void* ptr, size_t size) override;
  bool isConnected() override;
  void send(gloo_abi::r4::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) override;
  void recv(gloo_abi::r4::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) override;
  void put(gloo_abi::r4::UnboundBuffer* buffer, const gloo_abi::r4::RemoteKey& key, uint64_t slot,
           size_t offset, size_t roffset, size_t nbytes) override;
  void get(gloo_abi::r4::UnboundBuffer* buffer, const gloo_abi::r4::RemoteKey& key, uint64_t slot,
           size_t offset, size_t roffset, size_t nbytes) override;

 private:
  Context& context_;
  int peer_;
  PairAddress address_;
};

}  // namespace floe::gloo_transport
