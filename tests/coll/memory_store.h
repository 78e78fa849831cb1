// A store in this process's memory, for ranks that are threads.
#pragma once

#include <floe/floe.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace floe::test {

class MemoryStore {
 public:
  floe_store_t handle() {
    floe_store_t store = FLOE_STORE_INIT;
    store.user = this;
    store.set = [](void* self, const char* key, const void* value, uint64_t bytes) {
      return static_cast<MemoryStore*>(self)->set(key, value, bytes);
    };
    store.get = [](void* self, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                   uint64_t timeout_ms) {
      return static_cast<MemoryStore*>(self)->get(key, value, capacity, bytes, timeout_ms);
    };
    store.remove = [](void* self, const char* key) { return static_cast<MemoryStore*>(self)->remove(key); };
    return store;
  }

  size_t keys() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  floe_status_t set(const char* key, const void* value, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    values_[key].assign(static_cast<const char*>(value), bytes);
    changed_.notify_all();
    return FLOE_OK;
  }

  floe_status_t get(const char* key, void* value, uint64_t capacity, uint64_t* bytes, uint64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return values_.count(key) > 0; };
    if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), there)) return FLOE_ERR_TIMEOUT;
    const std::string& found = values_[key];
    std::memcpy(value, found.data(), std::min<uint64_t>(found.size(), capacity));
    *bytes = found.size();
    return FLOE_OK;
  }

  floe_status_t remove(const char* key) {
    const std::lock_guard lock(mutex_);
    values_.erase(key);
    return FLOE_OK;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace floe::test
