// Long messages that their receiver copies from the sender's memory, or not.
#include <algorithm>
#include <utility>
#include <vector>

#include "messenger_fixture.h"

namespace floe {
namespace {

constexpr size_t kBytes = 5 << 20;  // several slices, and never eager

class Fetch : public MessengerTest {
 protected:
  Fetch() { from_a.gives = from_b.gives = true; }

  // A message from a to b, of which one slice has been fetched: the first after as many through the ring as a
  // trial begins with.
  void fetch_a_slice() {
    constexpr int kFirst = 5;  // see WayTrial
    for (int i = 0; i < kFirst; ++i) EXPECT_FALSE(exchange(kBytes).first);
    sent.count = received.count = 0;
    b.receive(receive);
    a.send(send);
    hand_over(from_a, b);
    EXPECT_EQ(b.pump(), 1);
    EXPECT_LT(from_b.fetched, kBytes);
    EXPECT_GT(from_b.fetched, 0u);
  }
  // A message from a to b, and of `back` bytes from b to a meanwhile. Whether those to b, and to a, were
  // fetched.
  std::pair<bool, bool> exchange(size_t bytes, size_t back = 0) {
    auto there_data = pattern(bytes), back_data = pattern(back);
    std::vector<std::byte> there_buffer(bytes), back_buffer(back);
    Transfer there_send = send_to(1, there_data, 5), there_receive = receive_from(0, there_buffer, 5);
    Transfer back_send = send_to(0, back_data, 5), back_receive = receive_from(1, back_buffer, 5);
    there_send.mutual = back_send.mutual = back != 0;
    const size_t by_b = from_b.fetched, by_a = from_a.fetched;
    a.send(there_send);
    if (back != 0) {
      b.send(back_send);
      a.receive(back_receive);
    }
    b.receive(there_receive);
    settle();
    EXPECT_EQ(there_buffer, there_data);
    EXPECT_EQ(back_buffer, back_data);
    EXPECT_TRUE(a.problem().ok() && b.problem().ok());
    EXPECT_FALSE(a.has_outgoing() || b.has_outgoing());
    return {from_b.fetched - by_b == bytes, back != 0 && from_a.fetched - by_a == back};
  }

  std::vector<std::byte> data = pattern(kBytes), buffer = std::vector<std::byte>(kBytes);
  Transfer send = send_to(1, data, 5), receive = receive_from(0, buffer, 5);
};

TEST_F(Fetch, BothWaysAreTriedTheRingFirst) {
  EXPECT_FALSE(exchange(kBytes).first);
  int fetched = 0;
  constexpr int kMessages = 100;
  for (int i = 0; i < kMessages; ++i) fetched += exchange(kBytes).first ? 1 : 0;
  EXPECT_GT(fetched, 0);
  EXPECT_LT(fetched, kMessages);
  EXPECT_EQ(sent.count, kMessages + 1);
  EXPECT_EQ(received.count, kMessages + 1);
}

TEST_F(Fetch, TwoThatExchangeGoOneWayTogether) {
  int fetched = 0;
  constexpr int kMessages = 100;
  for (int i = 0; i < kMessages; ++i) {
    const auto [by_b, by_a] = exchange(kBytes, kBytes);
    EXPECT_EQ(by_b, by_a) << i;
    fetched += by_a ? 1 : 0;
  }
  EXPECT_GT(fetched, 0);
  EXPECT_LT(fetched, kMessages);
}

// Of the sizes that would otherwise be eager.
TEST_F(Fetch, ShorterOnesAreAnnouncedIfTheyAreMutual) {
  constexpr size_t kMost = 1 << 20;
  from_a.most = from_b.most = kMost;
  EXPECT_EQ(exchange(kMost + 1), std::pair(false, false));
  EXPECT_EQ(exchange(kMost, kMost), std::pair(false, false));
  EXPECT_EQ(exchange(kMost + 1, kMost + 1), std::pair(true, true));
  from_a.gives = from_b.gives = false;
  EXPECT_EQ(exchange(kMost + 1, kMost + 1), std::pair(false, false));
}

TEST_F(Fetch, OnlyWhatIsOffered) {
  from_a.gives = false;
  EXPECT_EQ(exchange(kBytes), std::pair(false, false));
  EXPECT_EQ(exchange(kBytes, kBytes), std::pair(false, true));
}

// Also if some of it has been fetched already.
TEST_F(Fetch, WhatCannotBeReadIsSent) {
  fetch_a_slice();
  from_b.fails = 1;
  std::fill(buffer.begin(), buffer.end(), std::byte{});
  settle();
  EXPECT_EQ(buffer, data);
  EXPECT_EQ(sent.count, 1);
  EXPECT_EQ(received.count, 1);
  EXPECT_EQ(exchange(kBytes), std::pair(false, false)) << "it is not tried again";
  EXPECT_EQ(exchange(kBytes, kBytes), std::pair(false, true)) << "by this rank";
}

TEST_F(Fetch, AReceiveGoesOnElsewhereInTheMiddle) {
  fetch_a_slice();
  Transfer elsewhere = receive;
  b.move(receive, elsewhere);
  receive = {};
  settle();
  EXPECT_EQ(buffer, data);
  EXPECT_EQ(from_b.fetched, kBytes);
}

TEST_F(Fetch, OthersPassOneThatTakesLong) {
  auto small = pattern(8);
  std::vector<std::byte> small_buffer(8);
  Transfer small_send = send_to(1, small, 6), small_receive = receive_from(0, small_buffer, 6);
  fetch_a_slice();
  b.receive(small_receive);
  a.send(small_send);
  hand_over(from_a, b);
  EXPECT_EQ(received.count, 1);
  EXPECT_EQ(small_buffer, small);
  settle();
  EXPECT_EQ(buffer, data);
}

TEST_F(Fetch, IsForgottenInTheMiddle) {
  fetch_a_slice();
  b.clear();
  EXPECT_FALSE(b.has_outgoing());
  EXPECT_EQ(b.pump(), 0);
  EXPECT_EQ(received.count, 0);
}

}  // namespace
}  // namespace floe
