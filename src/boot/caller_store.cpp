#include <algorithm>
#include <vector>

#include "boot/store.h"

namespace floe {
namespace {

// The callback's status as ours. It comes from foreign code, so that any number is possible.
Status from_callback(floe_status_t status, std::string_view call, std::string_view key) {
  const int code = static_cast<int>(status);
  if (code == FLOE_OK) return {};
  if (code == FLOE_IN_PROGRESS || code < 0 || code > FLOE_ERR_INTERNAL)
    return error(FLOE_ERR_STORE,
                 "the caller's store returned {} from {}('{}'), which is no error code of floe", code, call,
                 key);
  return error(status, "the caller's store failed: {}('{}') returned status {}", call, key, code);
}

}  // namespace

Status check_store_item(std::string_view key, std::string_view value) {
  const bool printable = std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (key.empty() || key.size() > Store::kMaxKey || !printable)
    return error(FLOE_ERR_INTERNAL, "a store key must be 1 to {} printable characters, not '{}'",
                 Store::kMaxKey, key.substr(0, Store::kMaxKey));
  if (value.size() > Store::kMaxValue)
    return error(FLOE_ERR_INTERNAL, "the value of store key '{}' has {} bytes, {} are allowed", key,
                 value.size(), Store::kMaxValue);
  return {};
}

Result<CallerStore> CallerStore::create(const floe_store_t* store) {
  if (!store) return error(FLOE_ERR_ARGUMENT, "store is NULL");
  if (store->struct_size < sizeof(floe_store_t))
    return error(FLOE_ERR_ARGUMENT, "store->struct_size is {}, at least {} is expected: use FLOE_STORE_INIT",
                 store->struct_size, sizeof(floe_store_t));
  if (!store->set || !store->get)
    return error(FLOE_ERR_ARGUMENT, "store->{} is NULL: only remove may be", store->set ? "get" : "set");
  return CallerStore(*store);
}

Status CallerStore::set(const std::string& key, std::string_view value) {
  FLOE_TRY(check_store_item(key, value));
  return from_callback(store_.set(store_.user, key.c_str(), value.data(), value.size()), "set", key);
}

Result<std::string> CallerStore::get(const std::string& key, Deadline deadline) {
  FLOE_TRY(check_store_item(key, {}));
  std::string value(kMaxValue, '\0');
  uint64_t bytes = UINT64_MAX;
  const auto timeout_ms = static_cast<uint64_t>(deadline.left().count());
  const auto status = store_.get(store_.user, key.c_str(), value.data(), value.size(), &bytes, timeout_ms);
  FLOE_TRY(from_callback(status, "get", key));
  if (bytes > value.size())
    return error(FLOE_ERR_STORE, "the caller's store says that '{}' has {} bytes, where at most {} fit", key,
                 bytes, value.size());
  value.resize(bytes);
  return value;
}

Status CallerStore::remove(const std::string& key) {
  FLOE_TRY(check_store_item(key, {}));
  return store_.remove ? from_callback(store_.remove(store_.user, key.c_str()), "remove", key) : Status();
}

}  // namespace floe
