#include "engine/matcher.h"

#include <gtest/gtest.h>

#include "engine/messenger.h"

namespace floe {
namespace {

Transfer receive_from(uint32_t source, uint64_t tag) {
  Transfer transfer;
  transfer.peer = source;
  transfer.tag = tag;
  return transfer;
}

Transfer receive_any(std::vector<uint32_t> sources, uint64_t tag) {
  Transfer transfer;
  transfer.sources = std::move(sources);
  transfer.tag = tag;
  return transfer;
}

Unexpected message(uint32_t source, uint64_t tag, uint64_t id) {
  Unexpected m;
  m.header.source = source;
  m.header.tag = tag;
  m.header.id = id;
  return m;
}

TEST(Matcher, MatchesInTheOrderPosted) {
  Matcher matcher;
  Transfer first = receive_from(1, 7), second = receive_from(1, 7);
  EXPECT_FALSE(matcher.post(first));
  EXPECT_FALSE(matcher.post(second));
  EXPECT_EQ(matcher.match({0, 1, 7}), &first);
  EXPECT_EQ(matcher.match({0, 1, 7}), &second);
  EXPECT_EQ(matcher.match({0, 1, 7}), nullptr);
}

TEST(Matcher, UsesAllBitsOfTheTagTheSourceAndTheLane) {
  Matcher matcher;
  Transfer receive = receive_from(1, 1ull << 63 | 5);
  EXPECT_FALSE(matcher.post(receive));
  EXPECT_EQ(matcher.match({0, 1, 5}), nullptr);
  EXPECT_EQ(matcher.match({0, 2, 1ull << 63 | 5}), nullptr);
  EXPECT_EQ(matcher.match({1, 1, 1ull << 63 | 5}), nullptr);
  EXPECT_EQ(matcher.match({0, 1, 1ull << 63 | 5}), &receive);
}

TEST(Matcher, KeptMessagesComeOutInTheOrderOfArrival) {
  Matcher matcher;
  matcher.keep(message(1, 7, 10));
  matcher.keep(message(1, 7, 11));
  Transfer receive = receive_from(1, 7);
  EXPECT_EQ(matcher.post(receive)->header.id, 10u);
  EXPECT_EQ(matcher.post(receive)->header.id, 11u);
  EXPECT_FALSE(matcher.post(receive));
}

TEST(Matcher, AReceiveFromSeveralTakesTheOldestMessageOfThem) {
  Matcher matcher;
  matcher.keep(message(3, 7, 3));
  matcher.keep(message(1, 7, 1));
  matcher.keep(message(2, 7, 2));
  Transfer receive = receive_any({1, 2}, 7);
  EXPECT_EQ(matcher.post(receive)->header.id, 1u);
  EXPECT_EQ(matcher.post(receive)->header.id, 2u);
  EXPECT_FALSE(matcher.post(receive)) << "rank 3 is not among its sources";
}

TEST(Matcher, ExactAndAnyReceivesShareOneOrder) {
  Matcher matcher;
  Transfer any = receive_any({1, 2}, 7), exact = receive_from(1, 7), later = receive_any({1}, 7);
  EXPECT_FALSE(matcher.post(any));
  EXPECT_FALSE(matcher.post(exact));
  EXPECT_FALSE(matcher.post(later));
  EXPECT_EQ(matcher.match({0, 1, 7}), &any);
  EXPECT_EQ(matcher.match({0, 1, 7}), &exact);
  EXPECT_EQ(matcher.match({0, 1, 7}), &later);
}

// More than the table begins with room for: it grows, and nobody changes places.
TEST(Matcher, KnowsWhetherAnythingIsPosted) {
  Matcher matcher;
  Transfer receive = receive_from(1, 7), any = receive_any({1, 2}, 7);
  EXPECT_FALSE(matcher.has_any());
  matcher.keep(message(1, 7, 10));
  EXPECT_FALSE(matcher.has_any());
  EXPECT_TRUE(matcher.post(receive)) << "it takes the message, and is not posted";
  EXPECT_FALSE(matcher.has_any());
  EXPECT_FALSE(matcher.post(receive));
  EXPECT_FALSE(matcher.post(any));
  EXPECT_EQ(matcher.match({0, 1, 7}), &receive);
  EXPECT_TRUE(matcher.has_any());
  EXPECT_EQ(matcher.match({0, 2, 7}), &any);
  EXPECT_FALSE(matcher.has_any());
  matcher.post(any);
  matcher.clear();
  EXPECT_FALSE(matcher.has_any());
}

TEST(Matcher, ManyReceivesAndMessagesKeepTheirOrder) {
  constexpr uint64_t kTags = 1000;
  Matcher matcher;
  std::vector<Transfer> receives;
  for (uint64_t i = 0; i < 2 * kTags; ++i) receives.push_back(receive_from(1, i % kTags));
  for (Transfer& receive : receives) EXPECT_FALSE(matcher.post(receive));
  for (uint64_t i = 0; i < 2 * kTags; ++i) matcher.keep(message(2, i % kTags, i));
  for (uint64_t tag = kTags; tag-- > 0;) {
    EXPECT_EQ(matcher.match({0, 1, tag}), &receives[tag]);
    EXPECT_EQ(matcher.match({0, 1, tag}), &receives[kTags + tag]);
    EXPECT_EQ(matcher.match({0, 1, tag}), nullptr);
    Transfer receive = receive_from(2, tag);
    EXPECT_EQ(matcher.post(receive)->header.id, tag);
    EXPECT_EQ(matcher.post(receive)->header.id, kTags + tag);
  }
}

TEST(Matcher, ForgetsEverything) {
  Matcher matcher;
  Transfer receive = receive_from(1, 7), any = receive_any({1, 2}, 8);
  EXPECT_FALSE(matcher.post(receive));
  EXPECT_FALSE(matcher.post(any));
  matcher.keep(message(1, 9, 0));
  matcher.clear();
  EXPECT_EQ(matcher.match({0, 1, 7}), nullptr);
  EXPECT_EQ(matcher.match({0, 1, 8}), nullptr);
  Transfer later = receive_from(1, 9);
  EXPECT_FALSE(matcher.post(later));
}

}  // namespace
}  // namespace floe
