// In which order messages end.
#include <array>

#include "messenger_fixture.h"

namespace floe {
namespace {

struct Order final : TransferOwner {
  std::vector<const Transfer*> ended;
  void on_transfer(Transfer& transfer) override { ended.push_back(&transfer); }
};

// Gloo tells messages of one tag apart by the order in which they end, on both sides.
TEST_F(MessengerTest, MessagesOfATagEndInTheOrderInWhichTheyWereSent) {
  constexpr size_t kMessages = 6;
  // Each is announced, or would be eager: too long for the window, one packet, several, none, what is left of
  // the window.
  const std::array<size_t, kMessages> sizes = {kWindow + 1, 8, 3 * kMaxPayload, 0, kWindow - kMaxPayload, 1};
  for (const bool link : {false, true}) {
    from_a.link = link;
    Order sends, receives;
    std::vector<std::vector<std::byte>> data, buffers;
    std::vector<Transfer> out, in;
    for (const size_t bytes : sizes) {
      data.push_back(pattern(bytes));
      buffers.emplace_back(bytes);
    }
    for (size_t i = 0; i < kMessages; ++i) {
      out.push_back(send_to(1, data[i], 5));
      in.push_back(receive_from(0, buffers[i], 5));
      out[i].owner = &sends;
      in[i].owner = &receives;
    }
    std::vector<std::byte> other(8);
    Transfer overtaking = send_to(1, other, 6), overtaken = receive_from(0, other, 6);
    for (Transfer& receive : in) b.receive(receive);
    b.receive(overtaken);
    for (Transfer& send : out) a.send(send);
    a.send(overtaking);
    hand_over(from_a, b);
    EXPECT_EQ(received.count, link ? 2 : 1);
    EXPECT_TRUE(receives.ended.empty());
    settle();
    ASSERT_EQ(sends.ended.size(), kMessages);
    ASSERT_EQ(receives.ended.size(), kMessages);
    for (size_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(sends.ended[i], &out[i]) << i;
      EXPECT_EQ(receives.ended[i], &in[i]) << i;
    }
    EXPECT_EQ(buffers, data);
    EXPECT_TRUE(a.problem().ok() && b.problem().ok());
  }
}

// Some are under way when a trial of the other way begins or ends, or a fetch fails.
TEST_F(MessengerTest, LongMessagesOfATagEndInOrderWhetherOrNotTheyAreFetched) {
  from_a.gives = true;
  from_a.most = 64 << 10;
  constexpr size_t kMessages = 120, kUnderWay = 3, kAtOnce = 8, kFails = 44, kBytes = 1 << 20;
  auto data = pattern(kBytes);
  Order sends, receives;
  std::vector<Transfer> out(kMessages), in(kMessages);
  std::vector<std::vector<std::byte>> buffers(kMessages);
  for (size_t i = 0; i < kMessages; ++i) {
    if (i == kFails) from_b.fails = 1;
    buffers[i].resize(kBytes);
    out[i] = send_to(1, data, 5);
    in[i] = receive_from(0, buffers[i], 5);
    out[i].owner = &sends;
    in[i].owner = &receives;
    b.receive(in[i]);
    a.send(out[i]);
    if (i % kAtOnce == kAtOnce - 1) settle();
    while (receives.ended.size() + kUnderWay <= i) {
      a.pump();
      b.pump();
      hand_over(from_a, b);
      hand_over(from_b, a);
    }
  }
  EXPECT_GT(from_b.fetched, 0u);
  EXPECT_LT(from_b.fetched, kMessages * kBytes);
  EXPECT_EQ(from_b.fails, 0u);
  ASSERT_EQ(sends.ended.size(), kMessages);
  ASSERT_EQ(receives.ended.size(), kMessages);
  for (size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(sends.ended[i], &out[i]) << i;
    EXPECT_EQ(receives.ended[i], &in[i]) << i;
    EXPECT_EQ(buffers[i], data) << i;
  }
}

}  // namespace
}  // namespace floe
