// What packets two messengers exchange, and what they refuse.
#include <gmock/gmock.h>

#include <numeric>

#include "engine/operation.h"
#include "messenger_fixture.h"

namespace floe {
namespace {

using testing::HasSubstr;

TEST_F(MessengerTest, CarriesAllSizesWhicheverSideIsFirst) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, kMaxPayload, kMaxPayload + 1, size_t{12345}, kWindow, kWindow + 1})
    for (const int way : {0, 1, 2, 3}) {
      const bool receive_first = (way & 1) != 0;
      from_a.link = (way & 2) != 0;
      auto data = pattern(bytes);
      std::vector<std::byte> buffer(bytes);
      Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
      if (receive_first) b.receive(receive);
      a.send(send);
      settle();
      if (!receive_first) b.receive(receive);
      settle();
      EXPECT_EQ(buffer, data) << bytes;
      EXPECT_TRUE(a.problem().ok() && b.problem().ok());
    }
  EXPECT_EQ(sent.count, 7 * 4);
  EXPECT_EQ(received.count, 7 * 4);
}

// Past the cache and with ordinary stores, some in a row each; what is announced and from a quarter of it on.
TEST_F(MessengerTest, LargeMessagesAreKeptBothWays) {
  constexpr size_t kCache = 40 * kMaxPayload;
  b = Messenger(1, 1, {{&from_b, 0}, {}}, kCache);
  const auto past_of = [&](int messages, size_t bytes, bool both_ways = false) {
    int past = 0;
    for (int i = 0; i < messages; ++i) {
      auto data = pattern(bytes);
      std::vector<std::byte> buffer(bytes);
      Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
      auto other = data;
      Transfer back = send_to(0, data, 6), taken = receive_from(1, other, 6);
      if (both_ways) {
        a.receive(taken);
        b.send(back);
      }
      b.receive(receive);
      a.send(send);
      settle();
      EXPECT_EQ(buffer, data);
      past += receive.past_cache ? 1 : 0;
    }
    return past;
  };
  EXPECT_EQ(0, past_of(6, kCache / 4 - 1));
  EXPECT_EQ(5, past_of(8, kCache / 4));  // five, then three that are not
  EXPECT_EQ(from_a.past, 5 * 10) << "the sender is told";
  EXPECT_EQ(0, past_of(6, kMaxPayload));
  EXPECT_NE(0, past_of(500, kCache / 4, true));
  EXPECT_EQ(from_a.past, 5 * 10) << "not of a receiver that sends a long one";
  EXPECT_EQ(5, past_of(8, kCache / 2)) << "larger ones are tried by themselves";
  EXPECT_TRUE(b.problem().ok());
}

// The receive is posted when a part of it has been kept; what follows goes straight into it.
TEST_F(MessengerTest, AReceiveTakesAMessageOfWhichAPartHasCome) {
  from_a.link = true;
  from_a.room = 2;
  auto data = pattern(5 * kMaxPayload), small = pattern(10);
  std::vector<std::byte> buffer(data.size()), small_buffer(10);
  Transfer send = send_to(1, data, 5), after = send_to(1, small, 6);
  a.send(send);
  a.send(after);
  hand_over(from_a, b);
  Transfer receive = receive_from(0, buffer, 5), receive_after = receive_from(0, small_buffer, 6);
  b.receive(receive);
  EXPECT_EQ(received.count, 0);
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + 2 * kMaxPayload, buffer.begin()));
  settle();
  b.receive(receive_after);
  EXPECT_EQ(received.count, 2);
  EXPECT_EQ(buffer, data);
  EXPECT_EQ(small_buffer, small);
}

// Who waits for a message does so on its stack, and goes on elsewhere when that takes long.
TEST_F(MessengerTest, AReceiveGoesOnElsewhereWhereverItStands) {
  auto data = pattern(5 * kMaxPayload), other = pattern(10);
  for (const bool parts : {false, true})  // of an eager message, or an announced one
    for (const size_t packets : {0, 1, 2}) {
      from_a.link = parts;
      from_a.room = packets;
      std::vector<std::byte> buffer(data.size()), other_buffer(10);
      Transfer send = send_to(1, data, 5), other_send = send_to(1, other, 5);
      Transfer first = receive_from(0, buffer, 5), after = receive_from(0, other_buffer, 5);
      b.receive(first);
      b.receive(after);
      a.send(send);
      hand_over(from_a, b);
      Transfer second = first;
      b.move(first, second);
      first = {};
      from_a.room = 1000;
      a.send(other_send);
      settle();
      EXPECT_EQ(buffer, data) << parts << packets;
      EXPECT_EQ(other_buffer, other) << parts << packets;
    }
  EXPECT_EQ(received.count, 2 * 2 * 3);
}

TEST_F(MessengerTest, AReceiveFromSeveralGoesOnElsewhere) {
  auto data = pattern(10);
  std::vector<std::byte> buffer(10);
  Transfer send = send_to(1, data, 5), first = receive_from(0, buffer, 5);
  first.sources = {0, 2};
  b.receive(first);
  Transfer second = first;
  b.move(first, second);
  first = {};
  a.send(send);
  settle();
  EXPECT_EQ(received.count, 1);
  EXPECT_EQ(buffer, data);
}

TEST_F(MessengerTest, AReceiveFromSeveralWaitsForOneOnceAPartHasCome) {
  from_a.link = true;
  from_a.room = 1;
  auto data = pattern(2 * kMaxPayload);
  std::vector<std::byte> buffer(data.size());
  Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
  receive.sources = {0, 2};
  b.receive(receive);
  a.send(send);
  hand_over(from_a, b);
  EXPECT_EQ(received.count, 0);
  EXPECT_EQ(receive.peer, 0u);
  EXPECT_TRUE(receive.sources.empty());
}

// More than one window, of messages that each are several packets, to a receiver that takes them late.
TEST_F(MessengerTest, BoundsWhatAReceiverMustKeepOfLongMessages) {
  from_a.link = true;
  constexpr int kMessages = 100;
  auto data = pattern(kWindow / 20);
  std::vector<Transfer> sends(kMessages, send_to(1, data, 9));
  for (Transfer& send : sends) a.send(send);
  settle();
  EXPECT_EQ(sent.count, 20);
  std::vector<std::byte> buffer(data.size());
  for (int i = 0; i < kMessages; ++i) {
    std::ranges::fill(buffer, std::byte{});
    Transfer receive = receive_from(0, buffer, 9);
    b.receive(receive);
    settle();
    ASSERT_EQ(buffer, data) << i;
  }
  EXPECT_EQ(sent.count, kMessages);
  EXPECT_EQ(received.count, kMessages);
  EXPECT_TRUE(a.problem().ok() && b.problem().ok());
}

TEST_F(MessengerTest, ForgetsAMessageOfWhichAPartHasCome) {
  for (const bool receive_first : {false, true}) {
    Messenger from{1, 0, {{}, {&from_a, 0}}}, to{1, 1, {{&from_b, 0}, {}}};
    from_a.packets.clear();
    from_a.link = true;
    from_a.room = 2;
    auto data = pattern(3 * kMaxPayload);
    std::vector<std::byte> buffer(data.size());
    Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
    if (receive_first) to.receive(receive);
    from.send(send);
    hand_over(from_a, to);
    to.clear();
    from.pump();
    hand_over(from_a, to);
    EXPECT_FALSE(to.problem().ok());
    EXPECT_EQ(received.count, 0);
    EXPECT_EQ(buffer.back(), std::byte{});
  }
}

TEST_F(MessengerTest, WorksWithRoomForOnePacket) {
  from_a.room = from_b.room = 1;
  auto data = pattern(20000);
  std::vector<std::byte> buffer(data.size());
  Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
  b.receive(receive);
  a.send(send);
  settle();
  EXPECT_EQ(buffer, data);
}

// A receiver that takes nothing holds at most the eager window; the rest waits at the sender.
TEST_F(MessengerTest, BoundsWhatAReceiverMustKeep) {
  constexpr int kMessages = 5000;
  auto data = pattern(kMaxPayload);
  std::vector<Transfer> sends(kMessages, send_to(1, data, 9));
  for (Transfer& send : sends) a.send(send);
  settle();
  EXPECT_LE(static_cast<size_t>(sent.count) * kMaxPayload, kWindow);
  std::vector<std::byte> buffer(kMaxPayload);
  for (int i = 0; i < kMessages; ++i) {
    Transfer receive = receive_from(0, buffer, 9);
    b.receive(receive);
    settle();
  }
  EXPECT_EQ(sent.count, kMessages);
  EXPECT_EQ(received.count, kMessages);
}

TEST_F(MessengerTest, AMessageLongerThanItsReceiveIsAProblemNamingBoth) {
  for (const size_t bytes : {size_t{10}, size_t{5000}}) {
    Messenger receiver{1, 1, {{&from_b, 0}, {}}};
    auto data = pattern(bytes);
    std::vector<std::byte> buffer(9);
    Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
    receiver.receive(receive);
    a.send(send);
    hand_over(from_a, receiver);
    EXPECT_EQ(receiver.problem().code(), FLOE_ERR_TRUNCATED);
    EXPECT_THAT(receiver.problem().message(), HasSubstr("rank 0 sent " + std::to_string(bytes)));
    a.clear();
  }
}

TEST_F(MessengerTest, CollectivesThatDifferAreAMismatch) {
  auto data = pattern(8);
  Transfer send = send_to(1, data, 5), receive = receive_from(0, data, 5);
  send.descriptor = {2, FLOE_SUM, FLOE_FLOAT32, 1, 0, 2};
  receive.descriptor = {2, FLOE_MAX, FLOE_FLOAT32, 1, 0, 2};
  a.send(send);
  settle();
  b.receive(receive);
  EXPECT_EQ(b.problem().code(), FLOE_ERR_MISMATCH);
  EXPECT_THAT(b.problem().message(), HasSubstr("sum"));
  EXPECT_THAT(b.problem().message(), HasSubstr("max"));
}

// Of a v-form, where each pair of ranks agrees on a size of its own: whether the message is short or long.
TEST_F(MessengerTest, BlocksWhoseSizesDifferAreAMismatchThatNamesBoth) {
  for (const size_t elements : {size_t{0}, size_t{20}, size_t{100'000}}) {
    Messenger from{1, 0, {{}, {&from_a, 0}}}, to{1, 1, {{&from_b, 0}, {}}};
    from_a.packets.clear();
    auto data = pattern(elements * sizeof(float));
    std::vector<std::byte> buffer(21 * sizeof(float));
    Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
    send.descriptor = receive.descriptor = {static_cast<uint8_t>(Kind::kGatherV), 0, FLOE_FLOAT32, 1, 1, 0};
    to.receive(receive);
    from.send(send);
    hand_over(from_a, to);
    EXPECT_EQ(to.problem().code(), FLOE_ERR_MISMATCH);
    EXPECT_THAT(to.problem().message(),
                HasSubstr(fmt::format("rank 0 sends {} elements to rank 1, which expects 21", elements)));
  }
}

TEST_F(MessengerTest, AllOfAMessageThatIsSentAloneMayComeInParts) {
  auto data = pattern(3 * kMaxPayload);
  Transfer alone = send_to(1, data, 5), other = send_to(1, data, 5);
  alone.alone = true;
  a.send(alone);
  EXPECT_EQ(from_a.parted, 3u);
  a.send(other);
  EXPECT_EQ(from_a.parted, 3u);
}

// No byte of a packet is believed: each of these would write out of bounds or use a stranger's transfer.
TEST_F(MessengerTest, RefusesPacketsThatNoFloeSends) {
  const auto problem_of = [&](PacketHeader header, size_t payload) {
    Messenger m{1, 1, {{&from_b, 0}, {}}};
    std::vector<std::byte> buffer(5000);
    Transfer receive = receive_from(0, buffer, 5);
    m.receive(receive);
    PacketHeader announce;
    announce.kind = PacketKind::kAnnounce;
    announce.tag = 5;
    announce.bytes = 5000;
    announce.id = 77;
    m.on_packet(announce, {});
    const uint64_t id = receive.id;
    if (header.id == 1) header.id = id;
    const std::vector<std::byte> bytes(payload);
    m.on_packet(header, bytes);
    return m.problem().code();
  };
  PacketHeader data;
  data.kind = PacketKind::kData;
  data.id = 1;
  EXPECT_EQ(problem_of(data, 100), FLOE_OK);
  EXPECT_EQ(problem_of(data, 0), FLOE_ERR_INTERNAL) << "empty";
  EXPECT_EQ(problem_of(data, 5001), FLOE_ERR_INTERNAL) << "too long";
  data.offset = 4000;
  EXPECT_EQ(problem_of(data, 100), FLOE_ERR_INTERNAL) << "a gap";
  data.offset = ~uint64_t{0} - 50;
  EXPECT_EQ(problem_of(data, 100), FLOE_ERR_INTERNAL) << "an offset that wraps";
  data.offset = 0;
  data.id = 1234;
  EXPECT_EQ(problem_of(data, 100), FLOE_ERR_INTERNAL) << "an id that was never given";

  PacketHeader eager;
  eager.kind = PacketKind::kEager;
  eager.bytes = 10;
  EXPECT_EQ(problem_of(eager, 9), FLOE_OK) << "its first part";
  EXPECT_EQ(problem_of(eager, 0), FLOE_ERR_INTERNAL) << "an empty part";
  EXPECT_EQ(problem_of(eager, 11), FLOE_ERR_INTERNAL) << "a longer payload";
  eager.bytes = kWindow + 1;
  EXPECT_EQ(problem_of(eager, 9), FLOE_ERR_INTERNAL) << "more than the window";
  PacketHeader more;
  more.kind = PacketKind::kMore;
  more.bytes = 10;
  EXPECT_EQ(problem_of(more, 9), FLOE_ERR_INTERNAL) << "nothing has begun";
  PacketHeader ready;
  ready.kind = PacketKind::kReady;
  ready.id = 3;
  EXPECT_EQ(problem_of(ready, 0), FLOE_ERR_INTERNAL) << "nothing was announced";
  PacketHeader fetched;
  fetched.kind = PacketKind::kFetched;
  fetched.id = 3;
  EXPECT_EQ(problem_of(fetched, 0), FLOE_ERR_INTERNAL) << "nothing was announced";
  PacketHeader consumed;
  consumed.kind = PacketKind::kConsumed;
  consumed.bytes = 1;
  EXPECT_EQ(problem_of(consumed, 0), FLOE_ERR_INTERNAL) << "more than was sent";
  PacketHeader unknown;
  unknown.kind = static_cast<PacketKind>(99);
  EXPECT_EQ(problem_of(unknown, 0), FLOE_ERR_INTERNAL);
}

// Of an eager message in several packets, whether it is being received or kept.
TEST_F(MessengerTest, RefusesPartsThatDoNotContinueTheirMessage) {
  const auto problem_of = [&](const PacketHeader& next, size_t payload, bool is_received) {
    Messenger m{1, 1, {{&from_b, 0}, {}}};
    std::vector<std::byte> buffer(5000);
    Transfer receive = receive_from(0, buffer, 5);
    if (is_received) m.receive(receive);
    PacketHeader first;
    first.kind = PacketKind::kEager;
    first.tag = 5;
    first.bytes = 5000;
    m.on_packet(first, std::vector<std::byte>(1000));
    m.on_packet(next, std::vector<std::byte>(payload));
    return m.problem().code();
  };
  for (const bool is_received : {false, true}) {
    PacketHeader more;
    more.kind = PacketKind::kMore;
    more.offset = 1000;
    EXPECT_EQ(problem_of(more, 4000, is_received), FLOE_OK);
    EXPECT_EQ(problem_of(more, 0, is_received), FLOE_ERR_INTERNAL) << "empty";
    EXPECT_EQ(problem_of(more, 4001, is_received), FLOE_ERR_INTERNAL) << "too long";
    more.offset = 2000;
    EXPECT_EQ(problem_of(more, 100, is_received), FLOE_ERR_INTERNAL) << "a gap";
    more.offset = 0;
    EXPECT_EQ(problem_of(more, 100, is_received), FLOE_ERR_INTERNAL) << "once more";
    PacketHeader another;
    another.kind = PacketKind::kEager;
    another.tag = 6;
    another.bytes = 10;
    EXPECT_EQ(problem_of(another, 10, is_received), FLOE_ERR_INTERNAL) << "another in between";
  }
}

// However small its packets are: nobody has taken anything.
TEST_F(MessengerTest, RefusesMoreThanTheWindowUnasked) {
  PacketHeader eager;
  eager.kind = PacketKind::kEager;
  eager.bytes = kWindow / 4;
  const std::vector<std::byte> whole(eager.bytes);
  for (eager.tag = 0; eager.tag < 4; ++eager.tag) b.on_packet(eager, whole);
  EXPECT_TRUE(b.problem().ok());
  eager.bytes = 1;
  b.on_packet(eager, std::vector<std::byte>(1));
  EXPECT_THAT(b.problem().message(), HasSubstr("more than may be sent unasked"));
}

}  // namespace
}  // namespace floe
