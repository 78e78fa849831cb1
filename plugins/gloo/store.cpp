#include "store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <vector>

namespace floe::gloo_transport::FLOE_GLOO_ABI {

using abi::Millis;
using Clock = std::chrono::steady_clock;

floe_store_t Store::callbacks() {
  floe_store_t store = FLOE_STORE_INIT;
  store.user = this;
  store.set = &Store::set;
  store.get = &Store::get;
  return store;
}

floe_status_t Store::set(void* user, const char* key, const void* value, uint64_t bytes) {
  auto& self = *static_cast<Store*>(user);
  try {
    const char* first = static_cast<const char*>(value);
    self.host_.set(key, std::vector<char>(first, first + bytes));
    return FLOE_OK;
  } catch (const std::exception& e) {
    self.error_ = e.what();
  } catch (...) {
    self.error_ = "an exception of unknown type";
  }
  return FLOE_ERR_STORE;
}

floe_status_t Store::get(void* user, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                         uint64_t timeout_ms) {
  auto& self = *static_cast<Store*>(user);
  const Millis timeout(timeout_ms);
  const auto start = Clock::now();
  try {
#if FLOE_GLOO_REVISION >= 3
    const std::vector<char> found = self.host_.wait_get(key, timeout);
#else
    self.host_.wait({key}, timeout);
    const std::vector<char> found = self.host_.get(key);
#endif
    if (!found.empty()) std::memcpy(value, found.data(), std::min<uint64_t>(capacity, found.size()));
    *bytes = found.size();
    return FLOE_OK;
  } catch (const std::exception& e) {
    self.error_ = e.what();
  } catch (...) {
    self.error_ = "an exception of unknown type";
  }
  // Stores say "timed out" with exceptions of many types and texts; the clock is reliable.
  return Clock::now() - start >= timeout ? FLOE_ERR_TIMEOUT : FLOE_ERR_STORE;
}

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
