#include <gmock/gmock.h>

#include <functional>

#include "boot/store.h"

namespace floe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A store whose functions a test writes as lambdas.
struct Callbacks {
  std::function<floe_status_t(std::string, std::string)> set;
  std::function<floe_status_t(std::string, void*, uint64_t capacity, uint64_t* bytes, uint64_t timeout_ms)>
      get;
  std::function<floe_status_t(std::string)> remove;

  floe_store_t as_c() {
    floe_store_t store = FLOE_STORE_INIT;
    store.user = this;
    store.set = [](void* user, const char* key, const void* value, uint64_t bytes) {
      return static_cast<Callbacks*>(user)->set(key, std::string(static_cast<const char*>(value), bytes));
    };
    store.get = [](void* user, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                   uint64_t timeout_ms) {
      return static_cast<Callbacks*>(user)->get(key, value, capacity, bytes, timeout_ms);
    };
    if (remove)
      store.remove = [](void* user, const char* key) { return static_cast<Callbacks*>(user)->remove(key); };
    return store;
  }
};

TEST(CallerStore, RefusesAStructThatIsIncomplete) {
  Callbacks callbacks;
  const floe_store_t good = callbacks.as_c();
  EXPECT_TRUE(CallerStore::create(&good).ok());
  EXPECT_EQ(CallerStore::create(nullptr).status().code(), FLOE_ERR_ARGUMENT);

  floe_store_t small = good;
  small.struct_size = 8;
  EXPECT_THAT(CallerStore::create(&small).status().message(), HasSubstr("struct_size is 8"));
  floe_store_t no_set = good;
  no_set.set = nullptr;
  EXPECT_THAT(CallerStore::create(&no_set).status().message(), HasSubstr("store->set is NULL"));
  floe_store_t no_get = good;
  no_get.get = nullptr;
  EXPECT_THAT(CallerStore::create(&no_get).status().message(), HasSubstr("store->get is NULL"));
}

// A later version of the struct is longer.
TEST(CallerStore, AcceptsALongerStruct) {
  Callbacks callbacks;
  floe_store_t store = callbacks.as_c();
  store.struct_size += 64;
  EXPECT_TRUE(CallerStore::create(&store).ok());
}

TEST(CallerStore, HandsKeysValuesAndTimeThrough) {
  std::string stored, removed;
  uint64_t capacity_seen = 0, timeout_seen = 0;
  Callbacks callbacks;
  callbacks.set = [&](const std::string& key, const std::string& value) {
    stored = key + "=" + value;
    return FLOE_OK;
  };
  callbacks.get = [&](const std::string&, void* value, uint64_t capacity, uint64_t* bytes,
                      uint64_t timeout_ms) {
    capacity_seen = capacity;
    timeout_seen = timeout_ms;
    *bytes = std::string_view("a\0b", 3).copy(static_cast<char*>(value), capacity);
    return FLOE_OK;
  };
  callbacks.remove = [&](const std::string& key) {
    removed = key;
    return FLOE_OK;
  };
  const floe_store_t c = callbacks.as_c();
  auto store = CallerStore::create(&c);
  ASSERT_TRUE(store.ok());

  EXPECT_TRUE(store->set("k", std::string_view("x\0y", 3)).ok());
  EXPECT_EQ(stored, std::string("k=x\0y", 5));
  const auto value = store->get("k", Deadline::in_ms(60'000));
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(*value, std::string("a\0b", 3));
  EXPECT_EQ(capacity_seen, Store::kMaxValue);
  EXPECT_GT(timeout_seen, 0u);
  EXPECT_LE(timeout_seen, 60'000u);
  EXPECT_TRUE(store->remove("k").ok());
  EXPECT_EQ(removed, "k");
}

TEST(CallerStore, MayLackRemove) {
  Callbacks callbacks;
  const floe_store_t c = callbacks.as_c();
  EXPECT_TRUE(CallerStore::create(&c)->remove("k").ok());
}

Result<std::string> get_that_returns(floe_status_t status, uint64_t bytes) {
  Callbacks callbacks;
  callbacks.get = [=](const std::string&, void*, uint64_t, uint64_t* size, uint64_t) {
    *size = bytes;
    return status;
  };
  const floe_store_t c = callbacks.as_c();
  return CallerStore::create(&c)->get("key-7", Deadline::in_ms(100));
}

TEST(CallerStore, BelievesNoSizeBeyondTheCapacity) {
  EXPECT_EQ(get_that_returns(FLOE_OK, Store::kMaxValue)->size(), Store::kMaxValue);
  EXPECT_EQ(*get_that_returns(FLOE_OK, 0), "");
  for (const uint64_t bytes : {uint64_t{Store::kMaxValue + 1}, uint64_t{1} << 32, UINT64_MAX}) {
    const auto value = get_that_returns(FLOE_OK, bytes);
    ASSERT_FALSE(value.ok());
    EXPECT_EQ(value.status().code(), FLOE_ERR_STORE);
    EXPECT_THAT(value.status().message(), AllOf(HasSubstr("key-7"), HasSubstr(std::to_string(bytes))));
  }
}

TEST(CallerStore, KeepsTheErrorsThatItKnows) {
  EXPECT_EQ(get_that_returns(FLOE_ERR_TIMEOUT, 0).status().code(), FLOE_ERR_TIMEOUT);
  EXPECT_EQ(get_that_returns(FLOE_ERR_INTERNAL, 0).status().code(), FLOE_ERR_INTERNAL);
  EXPECT_THAT(get_that_returns(FLOE_ERR_PEER, 0).status().message(), HasSubstr("get('key-7')"));
}

TEST(CallerStore, TakesAnUnknownStatusForAFailureOfTheStore) {
  // 15 fits into the enumeration's bits but has no name; in progress is no outcome of a blocking call.
  for (const int code : {static_cast<int>(FLOE_IN_PROGRESS), 15}) {
    const auto value = get_that_returns(static_cast<floe_status_t>(code), 0);
    ASSERT_FALSE(value.ok());
    EXPECT_EQ(value.status().code(), FLOE_ERR_STORE);
    EXPECT_THAT(value.status().message(), HasSubstr("returned " + std::to_string(code)));
  }
}

TEST(CallerStore, NeverPassesOnAKeyOrValueBeyondTheLimits) {
  int calls = 0;
  Callbacks callbacks;
  callbacks.set = [&](const std::string&, const std::string&) { return ++calls, FLOE_OK; };
  const floe_store_t c = callbacks.as_c();
  auto store = CallerStore::create(&c);
  EXPECT_FALSE(store->set("", "v").ok());
  EXPECT_FALSE(store->set(std::string(Store::kMaxKey + 1, 'k'), "v").ok());
  EXPECT_FALSE(store->set("a\nkey", "v").ok());
  EXPECT_FALSE(store->set(std::string("a\0b", 3), "v").ok());
  EXPECT_FALSE(store->set("k", std::string(Store::kMaxValue + 1, 'v')).ok());
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(store->set(std::string(Store::kMaxKey, 'k'), std::string(Store::kMaxValue, 'v')).ok());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace floe
