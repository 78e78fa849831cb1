#include "comm/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace floe {
namespace {

TEST(FailureText, SurvivesTheWay) {
  const auto back = parse_failure(failure_text({FLOE_ERR_SYSTEM, "no descriptors left: 24 of 24"}));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(FLOE_ERR_SYSTEM, back->code());
  EXPECT_EQ("no descriptors left: 24 of 24", back->message());
}

TEST(FailureText, IsBounded) {
  EXPECT_LT(failure_text({FLOE_ERR_SYSTEM, std::string(1 << 20, 'x')}).size(), Exchange::kMaxValue);
}

TEST(FailureText, OfAnotherKindIsNone) {
  for (const char* text : {"", " ", "5", "5:late", "0 fine", "1 waits", "15 unknown", "-5 late", "x late",
                           "99999999999999999999 huge", "0x5 late"})
    EXPECT_FALSE(parse_failure(text).has_value()) << text;
}

// Has what has been set, and lets who asks for something else wait.
class SlowStore final : public Store {
 public:
  Status set(const std::string& key, std::string_view) override {
    there_ = key;
    return {};
  }
  Result<std::string> get(const std::string& key, Deadline deadline) override {
    ++asked;
    if (key == there_) return std::string();
    std::this_thread::sleep_for(deadline.left());
    return error(FLOE_ERR_TIMEOUT, "no {}", key);
  }
  Status remove(const std::string&) override { return {}; }

  int asked = 0;

 private:
  std::string there_;
};

TEST(StoreExchange, NamesAllThatAreMissing) {
  SlowStore store;
  StoreExchange exchange(store, "world", 2, 4);
  const auto values = exchange.all(Phase::kCard, "mine", Deadline::in_ms(0));
  EXPECT_EQ(FLOE_ERR_STORE, values.status().code());
  EXPECT_THAT(values.status().message(), testing::HasSubstr("ranks 0, 1, 3 of 4 did not arrive"));
}

// However many they are, the deadline has passed.
TEST(StoreExchange, DoesNotLookForLongForThoseThatAreMissing) {
  SlowStore store;
  StoreExchange exchange(store, "world", 0, 1000);
  const auto values = exchange.all(Phase::kCard, "mine", Deadline::in_ms(0));
  EXPECT_EQ(FLOE_ERR_STORE, values.status().code());
  EXPECT_THAT(values.status().message(), testing::HasSubstr("ranks 1, 2"));
  EXPECT_THAT(values.status().message(), testing::HasSubstr(" and perhaps more of 1000 did not arrive"));
  EXPECT_LE(store.asked, 20);
}

}  // namespace
}  // namespace floe
