#include "store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace floe_torch {
namespace {

using Clock = std::chrono::steady_clock;

using std::chrono::milliseconds;

// The longest wait that a store's own arithmetic takes.
constexpr uint64_t kLongestMs = 1'000'000'000;
// How long a wait that can be cancelled goes without a look.
constexpr milliseconds kSlice(1000);

}  // namespace

// No exception of the store may pass through floe's C API.
template <class F>
floe_status_t StoreAdapter::guarded(F&& body) {
  try {
    return body();
  } catch (const c10::Error& e) {
    problem_ = e.what_without_backtrace();
  } catch (const std::exception& e) {
    problem_ = e.what();
  }
  return FLOE_ERR_STORE;
}

// Throws what the store throws, but for an expired wait.
floe_status_t StoreAdapter::wait(const char* key, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (true) {
    if (cancelled_ && cancelled_()) return FLOE_ERR_ABORTED;
    const auto start = Clock::now();
    const auto left = std::chrono::ceil<milliseconds>(deadline - start);
    // To the store's wait, 0 means for ever.
    if (left <= milliseconds::zero()) return store_->check({key}) ? FLOE_OK : FLOE_ERR_TIMEOUT;
    const auto slice = cancelled_ ? std::min(left, kSlice) : left;
    try {
      store_->wait({key}, slice);
      return FLOE_OK;
    } catch (const std::exception&) {
      // Stores report an expired wait with different exceptions; the clock tells it from the rest.
      if (Clock::now() - start < slice * 9 / 10) throw;
    }
  }
}

floe_store_t StoreAdapter::callbacks() {
  floe_store_t table = FLOE_STORE_INIT;
  table.user = this;
  table.set = [](void* user, const char* key, const void* value, uint64_t bytes) {
    auto& self = *static_cast<StoreAdapter*>(user);
    return self.guarded([&] {
      const auto* first = static_cast<const uint8_t*>(value);
      self.store_->set(key, std::vector<uint8_t>(first, first + bytes));
      return FLOE_OK;
    });
  };
  table.get = [](void* user, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                 uint64_t timeout_ms) {
    auto& self = *static_cast<StoreAdapter*>(user);
    return self.guarded([&] {
      const floe_status_t status = self.wait(key, milliseconds(std::min(timeout_ms, kLongestMs)));
      if (status != FLOE_OK) return status;
      const std::vector<uint8_t> found = self.store_->get(key);
      std::memcpy(value, found.data(), std::min<uint64_t>(capacity, found.size()));
      *bytes = found.size();
      return FLOE_OK;
    });
  };
  table.remove = [](void* user, const char* key) {
    auto& self = *static_cast<StoreAdapter*>(user);
    // A store without deletion keeps the key: no reason to fail.
    self.guarded([&] {
      self.store_->deleteKey(key);
      return FLOE_OK;
    });
    return FLOE_OK;
  };
  return table;
}

}  // namespace floe_torch
