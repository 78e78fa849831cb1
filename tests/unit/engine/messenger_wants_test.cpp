// What a messenger leaves with its transport for a while.
#include "messenger_fixture.h"

namespace floe {
namespace {

// How often `to` refuses the packet before it wants it.
int refusals(Messenger& to, const PacketHeader& header) {
  int count = 0;
  while (count < 1000 && !to.wants(header)) ++count;
  return count;
}

// It stays where it has come for a few looks; not for ever, as others are behind it.
TEST_F(MessengerTest, WhatNobodyWaitsForIsWantedAfterAWhile) {
  auto data = pattern(2 * kMaxPayload), other = pattern(10);
  std::vector<std::byte> buffer(data.size()), other_buffer(10);
  Transfer send = send_to(1, data, 5), other_send = send_to(1, other, 6);
  Transfer receive = receive_from(0, buffer, 5), other_receive = receive_from(0, other_buffer, 6);
  a.send(send);
  a.send(other_send);
  const PacketHeader first = from_a.packets[0].first, second = from_a.packets[1].first;
  const int patience = refusals(b, first);
  EXPECT_GT(patience, 0);
  EXPECT_LT(patience, 50);
  b.on_packet(first, from_a.packets[0].second);
  EXPECT_EQ(refusals(b, second), 0);  // its other part, and all that follows
  EXPECT_EQ(refusals(b, from_a.packets[2].first), 0);
  b.receive(receive);
  b.receive(other_receive);
  for (size_t i = 1; i < from_a.packets.size(); ++i) {
    EXPECT_EQ(refusals(b, from_a.packets[i].first), 0);
    b.on_packet(from_a.packets[i].first, from_a.packets[i].second);
  }
  EXPECT_EQ(refusals(b, first), patience);  // again, as something has come that was waited for
  EXPECT_EQ(received.count, 2);
  EXPECT_EQ(buffer, data);
  EXPECT_EQ(other_buffer, other);
}

TEST_F(MessengerTest, InAHurryEverythingIsWanted) {
  auto data = pattern(10);
  Transfer send = send_to(1, data, 5);
  a.send(send);
  b.hurry();
  EXPECT_EQ(refusals(b, from_a.packets[0].first), 0);
  EXPECT_EQ(refusals(b, from_a.packets[0].first), 0);
}

TEST_F(MessengerTest, WantsWhatAReceiveFromSeveralWaitsFor) {
  auto data = pattern(2000);
  std::vector<std::byte> buffer(data.size());
  Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
  a.send(send);
  const PacketHeader header = from_a.packets[0].first;
  receive.sources = {2, 3};
  b.receive(receive);
  EXPECT_GT(refusals(b, header), 0);
  Transfer another = receive_from(0, buffer, 5);
  another.sources = {0, 2};
  b.receive(another);
  EXPECT_EQ(refusals(b, header), 0);
}

// As what is waited for may be behind it.
TEST_F(MessengerTest, ASmallMessageIsWantedIfAnythingIsWaitedFor) {
  auto data = pattern(10), other = pattern(11);
  std::vector<std::byte> buffer(11), late_buffer(10);
  Transfer send = send_to(1, data, 5), other_send = send_to(1, other, 6);
  Transfer receive = receive_from(0, buffer, 6), late = receive_from(0, late_buffer, 5);
  a.send(send);
  a.send(other_send);
  const PacketHeader header = from_a.packets[0].first;
  const int patience = refusals(b, header);
  EXPECT_GT(patience, 0);
  b.receive(receive);
  for (const auto& [packet, payload] : from_a.packets) {
    EXPECT_EQ(refusals(b, packet), 0);
    b.on_packet(packet, payload);
  }
  EXPECT_EQ(received.count, 1);
  EXPECT_EQ(buffer, other);
  EXPECT_EQ(refusals(b, header), patience) << "nothing is waited for any more";
  b.receive(late);
  EXPECT_EQ(received.count, 2);
  EXPECT_EQ(late_buffer, data);
}

}  // namespace
}  // namespace floe
