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

Unexpected message(uint64_t id) {
  Unexpected m;
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
  matcher.keep({0, 1, 7}, message(10));
  matcher.keep({0, 1, 7}, message(11));
  Transfer receive = receive_from(1, 7);
  EXPECT_EQ(matcher.post(receive)->header.id, 10u);
  EXPECT_EQ(matcher.post(receive)->header.id, 11u);
  EXPECT_FALSE(matcher.post(receive));
}

TEST(Matcher, AReceiveFromSeveralTakesTheOldestMessageOfThem) {
  Matcher matcher;
  matcher.keep({0, 3, 7}, message(3));
  matcher.keep({0, 1, 7}, message(1));
  matcher.keep({0, 2, 7}, message(2));
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

}  // namespace
}  // namespace floe
