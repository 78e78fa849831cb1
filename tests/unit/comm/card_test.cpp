#include "comm/card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace floe {
namespace {

using testing::HasSubstr;

Card some_card() {
  return {1,    4,     UINT64_MAX, 7,          "host id", "node-1", INT32_MAX, "socket", "token",
          "on", "tcp", "0-3",      "near far", 9,         "set",    "1f",      "bf16"};
}

TEST(Card, SurvivesTheWay) {
  const std::string text = some_card().encode();
  const auto back = Card::decode(text, 2);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(text, back->encode());
  EXPECT_EQ("rank 2 (host node-1, pid 2147483647)", back->who(2));
}

class WrongCards : public testing::TestWithParam<std::pair<const char*, const char*>> {};

// What is not exactly a card would be converted to something that looks like one.
TEST_P(WrongCards, AreRefusedByRank) {
  const auto& [right, wrong] = GetParam();
  std::string text = some_card().encode();
  const size_t at = text.find(right);
  ASSERT_NE(std::string::npos, at) << text;
  text.replace(at, std::string(right).size(), wrong);
  const auto card = Card::decode(text, 3);
  ASSERT_FALSE(card.ok()) << text;
  EXPECT_EQ(FLOE_ERR_STORE, card.status().code());
  EXPECT_THAT(card.status().message(), HasSubstr("rank 3"));
}

INSTANTIATE_TEST_SUITE_P(All, WrongCards,
                         testing::Values(std::pair("\"version\":1", "\"version\":4294967297"),
                                         std::pair("\"version\":1", "\"version\":true"),
                                         std::pair("\"size\":4", "\"size\":-4"),
                                         std::pair("\"size\":4", "\"size\":4.0"),
                                         std::pair("\"pid\":2147483647", "\"pid\":2147483648"),
                                         std::pair("\"nonce\":7", "\"nonce\":\"7\""),
                                         std::pair("\"host\":\"host id\"", "\"host\":1"),
                                         std::pair("\"cpus\"", "\"others\""), std::pair("{", "[")));

}  // namespace
}  // namespace floe
