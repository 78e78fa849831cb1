// Long messages both ways whose packets are answered in the memory that they came in.
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "messenger_fixture.h"

namespace floe {
namespace {

constexpr size_t kPacket = 2000, kLong = 5 << 20;  // is never eager

class Answers : public MessengerTest {
 protected:
  Answers() { from_a.most_to_answer = from_b.most_to_answer = kPacket; }

  struct Sent {
    std::vector<std::byte> data, buffer;
    Transfer send, receive;
  };
  Sent& add(uint32_t from, size_t bytes) {
    Sent& s = messages.emplace_back();
    s.data = pattern(bytes);
    s.buffer.resize(bytes);
    s.send = send_to(1 - from, s.data, 5);
    s.receive = receive_from(from, s.buffer, 5);
    s.send.mutual = true;
    return s;
  }
  void begin(size_t there, size_t back) {
    Sent& to_b = add(0, there);
    Sent& to_a = add(1, back);
    a.send(to_b.send);
    b.send(to_a.send);
    a.receive(to_a.receive);
    b.receive(to_b.receive);
  }
  void exchange(size_t there, size_t back) {
    begin(there, back);
    settle();
  }
  void expect_all() {
    for (const Sent& s : messages) EXPECT_EQ(s.buffer, s.data);
    EXPECT_EQ(sent.count, static_cast<int>(messages.size()));
    EXPECT_EQ(received.count, static_cast<int>(messages.size()));
    EXPECT_TRUE(a.problem().ok() && b.problem().ok());
    EXPECT_FALSE(a.has_outgoing() || b.has_outgoing());
  }

  std::deque<Sent> messages;  // they stay where they are
};

TEST_F(Answers, EachPacketBringsTheNextOne) {
  exchange(kLong, kLong);
  expect_all();
  constexpr size_t kPackets = (kLong + kPacket - 1) / kPacket;
  // All but those that each side began with.
  EXPECT_GE(from_a.answers, kPackets - 2);
  EXPECT_GE(from_b.answers, kPackets - 2);
}

TEST_F(Answers, TheLongerOneGoesOnAlone) {
  exchange(kLong, kLong / 2);
  exchange(kLong / 2, kLong);
  expect_all();
  EXPECT_GE(from_a.answers, kLong / kPacket - 4);
}

TEST_F(Answers, OneWayThereAreNone) {
  Sent& s = add(0, kLong);
  a.send(s.send);
  b.receive(s.receive);
  settle();
  expect_all();
  EXPECT_EQ(from_a.answers + from_b.answers, 0u);
}

// From where it is as fast as if it were sent unasked.
TEST_F(Answers, ShorterOnesAreLongIfTheyAreMutual) {
  constexpr size_t kMost = 256 << 10;
  from_a.most = from_b.most = kMost;
  exchange(kMost, kMost);
  EXPECT_EQ(from_a.answers, 0u);
  exchange(kMost + 1, kMost + 1);
  EXPECT_GT(from_a.answers, 0u);
  expect_all();
}

// The two must not wait for each other then.
TEST_F(Answers, WithoutRoomForThemTheyBeginAnew) {
  for (const size_t refuses : {1, 2, 3, 100}) {
    from_a.refuses = refuses;
    from_b.refuses = refuses == 2 ? 1 : 0;
    exchange(kLong, kLong / 3 * 2);
    from_b.refuses = refuses;
    exchange(kLong / 3 * 2, kLong);
  }
  expect_all();
}

TEST_F(Answers, OfSeveralMessagesInAnyOrder) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 30; ++turn) {
    from_a.refuses = random() % 4;
    from_b.refuses = random() % 4;
    from_a.room = 1 + random() % 20;
    from_b.room = 1 + random() % 20;
    std::vector<std::pair<Messenger*, Transfer*>> sends, receives;
    for (uint32_t i = 1 + random() % 6; i != 0; --i) {
      const uint32_t from = random() % 2;
      Sent& s = add(from, random() % 2 == 0 ? 300'000 + random() % 200'000 : random() % 5000);
      sends.emplace_back(from == 0 ? &a : &b, &s.send);
      receives.emplace_back(from == 0 ? &b : &a, &s.receive);
    }
    for (size_t i = 0, j = 0; i + j < 2 * sends.size();) {
      const bool sending = j == receives.size() || (i != sends.size() && random() % 2 == 0);
      if (sending) {
        sends[i].first->send(*sends[i].second);
        ++i;
      } else {
        receives[j].first->receive(*receives[j].second);
        ++j;
      }
      if (random() % 3 == 0) hand_over(from_a, b);
      if (random() % 3 == 0) hand_over(from_b, a);
      if (random() % 3 == 0) a.pump();
    }
    settle();
    ASSERT_FALSE(a.has_outgoing() || b.has_outgoing()) << turn;
  }
  expect_all();
}

TEST_F(Answers, AreForgottenInTheMiddle) {
  begin(kLong, kLong);
  for (int i = 0; i < 3; ++i) {
    hand_over(from_a, b);
    hand_over(from_b, a);
  }
  a.clear();
  EXPECT_FALSE(a.has_outgoing());
  EXPECT_EQ(a.pump(), 0);
  EXPECT_EQ(received.count, 0);
}

TEST_F(Answers, ReadyForDataOfNoKindIsAProblem) {
  Sent& s = add(0, kLong);
  a.send(s.send);
  PacketHeader ready;
  ready.kind = PacketKind::kReady;
  ready.source = 1;
  ready.comm = 1;
  ready.id = from_a.packets.front().first.id;
  ready.bytes = static_cast<uint64_t>(PacketKind::kMail);
  a.on_packet(ready, {});
  EXPECT_FALSE(a.problem().ok());
}

}  // namespace
}  // namespace floe
