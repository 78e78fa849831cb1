// The key-value store through which ranks find each other while a communicator is created. Used by the
// creating thread only, and never after wire-up.
#pragma once

#include <floe/floe.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace floe {

class Store {
 public:
  static constexpr size_t kMaxKey = 200;
  static constexpr size_t kMaxValue = 4096;

  virtual ~Store() = default;

  virtual Status set(const std::string& key, std::string_view value) = 0;
  // Waits for the key; FLOE_ERR_TIMEOUT if it has not appeared by the deadline. A deadline that has passed
  // already asks once.
  virtual Result<std::string> get(const std::string& key, Deadline deadline) = 0;
  // No error if there is no such key.
  virtual Status remove(const std::string& key) = 0;
  // Whether keys outlive the creation of a communicator, unless they are removed.
  virtual bool lasts() const { return true; }
};

// FLOE_ERR_INTERNAL if the key or the value is longer than a store takes, or the key is not printable.
Status check_store_item(std::string_view key, std::string_view value);

// The caller's callbacks. Whatever they return is checked before it is believed.
class CallerStore final : public Store {
 public:
  // FLOE_ERR_ARGUMENT if `store` is NULL, has a wrong struct_size, or lacks set or get. The struct is
  // copied; `user` must outlive the store.
  static Result<CallerStore> create(const floe_store_t* store);

  Status set(const std::string& key, std::string_view value) override;
  Result<std::string> get(const std::string& key, Deadline deadline) override;
  Status remove(const std::string& key) override;

 private:
  explicit CallerStore(const floe_store_t& store) : store_(store) {}

  floe_store_t store_;
};

}  // namespace floe
