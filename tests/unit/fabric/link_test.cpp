#include "fabric/link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace floe::fabric {
namespace {

constexpr uint64_t kOwn = 42;

std::vector<std::byte> message(LinkHeader header, size_t body) {
  std::vector<std::byte> bytes(sizeof header + body);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

LinkHeader packet(uint32_t payload) {
  LinkHeader header;
  header.kind = LinkKind::kPacket;
  header.to = kOwn;
  header.payload = payload;
  return header;
}

TEST(ParseMessage, PacketAndCreditAreAccepted) {
  EXPECT_TRUE(parse_message(message(packet(100), sizeof(PacketHeader) + 100), kOwn).header);
  EXPECT_TRUE(parse_message(message(packet(0), sizeof(PacketHeader)), kOwn).header);
  LinkHeader credit = packet(0);
  credit.kind = LinkKind::kCredit;
  EXPECT_TRUE(parse_message(message(credit, 0), kOwn).header);
  EXPECT_FALSE(parse_message(message(credit, 1), kOwn).header);
}

TEST(ParseMessage, EveryShorterMessageIsRefused) {
  const auto whole = message(packet(100), sizeof(PacketHeader) + 100);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_message(std::span(whole).first(size), kOwn).header) << size;
}

TEST(ParseMessage, LengthsThatDoNotAgreeAreRefused) {
  for (const uint32_t payload : {0u, 99u, 101u, UINT32_MAX, UINT32_MAX - uint32_t{sizeof(PacketHeader)}})
    EXPECT_FALSE(parse_message(message(packet(payload), sizeof(PacketHeader) + 100), kOwn).header) << payload;
}

TEST(ParseMessage, ForeignMagicVersionKindAndReceiverAreRefused) {
  const auto refused = [](auto change) {
    LinkHeader header = packet(0);
    change(header);
    return !parse_message(message(header, sizeof(PacketHeader)), kOwn).header;
  };
  EXPECT_FALSE(refused([](LinkHeader&) {}));
  EXPECT_TRUE(refused([](LinkHeader& h) { h.magic ^= 1; }));
  EXPECT_TRUE(refused([](LinkHeader& h) { ++h.version; }));
  EXPECT_TRUE(refused([](LinkHeader& h) { h.kind = static_cast<LinkKind>(0); }));
  EXPECT_TRUE(refused([](LinkHeader& h) { h.kind = static_cast<LinkKind>(200); }));
  EXPECT_TRUE(refused([](LinkHeader& h) { h.to = kOwn + 1; }));
}

LinkHeader numbered(uint64_t sequence) {
  LinkHeader header = packet(0);
  header.sequence = sequence;
  return header;
}

TEST(Link, PacketsThatOvertakeOthersWaitForThem) {
  for (const uint64_t first : {uint64_t{0}, UINT64_MAX - 1}) {
    Link link;
    link.consumed = first;
    std::array<Slot, 3> slots;
    EXPECT_EQ("", link.take(numbered(first + 2), slots[2]));
    EXPECT_EQ(nullptr, link.next());
    EXPECT_EQ("", link.take(numbered(first), slots[0]));
    EXPECT_EQ("", link.take(numbered(first + 1), slots[1]));
    for (Slot& slot : slots) {
      EXPECT_EQ(&slot, link.next());
      ++link.consumed;
    }
    EXPECT_EQ(nullptr, link.next());
  }
}

TEST(Link, NumbersOutsideTheWindowOrTakenTwiceAreRefused) {
  Link link;
  link.consumed = 100;
  Slot slot;
  for (const uint64_t sequence : {uint64_t{99}, 100 + kWindow, uint64_t{0}, UINT64_MAX})
    EXPECT_EQ("a packet's number is outside its window", link.take(numbered(sequence), slot)) << sequence;
  EXPECT_EQ("", link.take(numbered(100 + kWindow - 1), slot));
  EXPECT_EQ("two packets have one number", link.take(numbered(100 + kWindow - 1), slot));
}

TEST(Link, CreditComesForPacketsThatWereSentOnly) {
  Link link;
  link.sent = kWindow;
  EXPECT_FALSE(link.has_credit());
  Slot slot;
  LinkHeader credit;
  credit.kind = LinkKind::kCredit;
  credit.consumed = kWindow + 1;
  EXPECT_EQ("it acknowledges packets that were not sent", link.take(credit, slot));
  EXPECT_FALSE(link.has_credit());
  credit.consumed = 3;
  EXPECT_EQ("", link.take(credit, slot));
  EXPECT_EQ(3u, link.acknowledged);
  credit.consumed = 2;  // overtaken by the other
  EXPECT_EQ("", link.take(credit, slot));
  EXPECT_EQ(3u, link.acknowledged);
  EXPECT_EQ(nullptr, link.next());
}

}  // namespace
}  // namespace floe::fabric
