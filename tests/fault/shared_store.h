// A store in memory that the processes of a test share.
#pragma once

#include <floe/floe.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

namespace floe::test {

// To be made before the processes are.
class SharedStore {
 public:
  // Called in the process that reads, before floe has the value.
  using Read = std::function<void(const std::string& key, std::string& value)>;

  SharedStore()
      : board_(new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   Board) {}
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;
  ~SharedStore() { munmap(board_, sizeof(Board)); }

  void on_read(Read read) { read_ = std::move(read); }

  floe_store_t handle() {
    floe_store_t store = FLOE_STORE_INIT;
    store.user = this;
    store.set = [](void* self, const char* key, const void* value, uint64_t bytes) {
      return static_cast<SharedStore*>(self)->set(key, value, bytes);
    };
    store.get = [](void* self, const char* key, void* value, uint64_t, uint64_t* bytes, uint64_t timeout_ms) {
      return static_cast<SharedStore*>(self)->get(key, value, bytes, timeout_ms);
    };
    return store;
  }

 private:
  struct Item {
    std::atomic<bool> complete{false};
    uint64_t bytes = 0;
    std::array<char, 256> key{};
    std::array<char, 4096> value{};
  };
  struct Board {
    std::atomic<size_t> used{0};
    std::array<Item, 128> items;
  };

  // Every key is set once.
  floe_status_t set(const char* key, const void* value, uint64_t bytes) {
    const size_t index = board_->used.fetch_add(1);
    if (index >= board_->items.size()) return FLOE_ERR_STORE;
    Item& item = board_->items[index];
    std::strncpy(item.key.data(), key, item.key.size() - 1);
    std::memcpy(item.value.data(), value, bytes);
    item.bytes = bytes;
    item.complete = true;
    return FLOE_OK;
  }

  floe_status_t get(const char* key, void* value, uint64_t* bytes, uint64_t timeout_ms) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    for (;;) {
      for (const Item& item : board_->items) {
        if (!item.complete || std::strcmp(item.key.data(), key) != 0) continue;
        std::string text(item.value.data(), item.bytes);
        if (read_) read_(key, text);
        std::memcpy(value, text.data(), *bytes = text.size());
        return FLOE_OK;
      }
      if (std::chrono::steady_clock::now() >= give_up) return FLOE_ERR_TIMEOUT;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Board* const board_;
  Read read_;
};

}  // namespace floe::test
