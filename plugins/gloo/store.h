// Gloo's key-value store as floe's.
#pragma once

#include <floe/floe.h>

#include <string>

#include "gloo_abi.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

namespace abi = gloo_abi::FLOE_GLOO_ABI;

// Lives while floe_comm_create runs. The store can't remove keys; the host puts a group's keys under a
// prefix of its own.
class Store {
 public:
  explicit Store(abi::IStore& host) : host_(host) {}

  floe_store_t callbacks();
  // What the host's store threw last, or "".
  const std::string& error() const { return error_; }

 private:
  static floe_status_t set(void* user, const char* key, const void* value, uint64_t bytes);
  static floe_status_t get(void* user, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                           uint64_t timeout_ms);

  abi::IStore& host_;
  std::string error_;
};

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
