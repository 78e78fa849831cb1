// In which packets a message goes.
#include <algorithm>

#include "engine/operation.h"
#include "messenger_fixture.h"

namespace floe {
namespace {

// A ring inside a host then has all of its header beside the cursor: see shm/latest_record.h.
TEST_F(MessengerTest, OnlyACollectivesMessageTellsItsDescriptor) {
  for (const uint8_t lane : {0, 1}) {
    auto data = pattern(8);
    Transfer send = send_to(1, data, 5 + lane);
    send.descriptor = {static_cast<uint8_t>(Kind::kSend), 0, FLOE_UINT8, lane, 1, data.size()};
    a.send(send);
    EXPECT_EQ(from_a.packets.back().first.descriptor, lane == 0 ? Descriptor{} : send.descriptor);
  }
}

// The answer to an announcement would wait behind all that the receiver is sending.
TEST_F(MessengerTest, WhereItsPacketsQueueALongMessageIsNotAnnounced) {
  from_a.link = true;
  auto data = pattern(5 * kMaxPayload);
  Transfer send = send_to(1, data, 5);
  a.send(send);
  EXPECT_EQ(sent.count, 1);
  ASSERT_EQ(from_a.packets.size(), 5);
  EXPECT_EQ(from_a.packets[0].first.kind, PacketKind::kEager);
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(from_a.packets[i].first.kind, PacketKind::kMore);
}

// What fits into eight packets.
TEST_F(MessengerTest, AMessageOfEightPacketsIsNotAnnounced) {
  for (const size_t beyond : {0, 1}) {
    auto data = pattern(8 * kMaxPayload + beyond);
    std::vector<std::byte> buffer(data.size());
    Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
    a.send(send);
    EXPECT_EQ(from_a.packets.size(), beyond ? 1 : 8);
    EXPECT_EQ(from_a.packets.front().first.kind, beyond ? PacketKind::kAnnounce : PacketKind::kEager);
    hand_over(from_a, b);
    b.receive(receive);
    settle();
    EXPECT_EQ(buffer, data);
  }
}

// TCP cuts a larger one in two: see coll/chunks.h.
TEST_F(MessengerTest, LongMessagesGoInPacketsOfOneFrame) {
  from_a.most = from_b.most = 64 << 10;
  from_a.link = from_b.link = true;
  auto data = pattern(1'000'000);
  std::vector<std::byte> buffer(data.size());
  Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
  b.receive(receive);
  a.send(send);
  ASSERT_GT(from_a.packets.size(), 10);
  for (const auto& [header, payload] : from_a.packets) EXPECT_LE(payload.size(), size_t{60} << 10);
  settle();
  EXPECT_EQ(buffer, data);
}

// None is much shorter than the others, and they begin on lines of the message.
TEST_F(MessengerTest, PacketsOfAMessageAreEven) {
  constexpr size_t kLine = 64;
  for (const size_t room : {kMaxPayload, 16 * kLine, size_t{1}, size_t{70}}) {
    from_a.most = from_b.most = room;
    for (const size_t bytes :
         {room - 1, room, room + 1, 2 * room, 2 * room + 1, 7 * room + room / 2, 8 * room}) {
      auto data = pattern(bytes);
      std::vector<std::byte> buffer(bytes);
      Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
      a.send(send);
      const size_t packets = std::max<size_t>(1, (bytes + room - 1) / room);
      ASSERT_EQ(from_a.packets.size(), packets) << bytes << " bytes, packets of " << room;
      for (const auto& [header, payload] : from_a.packets) {
        EXPECT_LE(payload.size(), room);
        if (room % kLine == 0) {
          EXPECT_EQ(header.offset % kLine, 0);
        }
        EXPECT_LE(payload.size(), bytes / packets + kLine);
        EXPECT_GE(payload.size() + packets * kLine, bytes / packets);
      }
      b.receive(receive);
      settle();
      EXPECT_EQ(buffer, data);
    }
  }
}

}  // namespace
}  // namespace floe
