// A schedule on a messenger whose peers are this test.
#include "engine/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace floe {
namespace {

using testing::ElementsAre;

constexpr Range kSum{Buffer::kRecv, 0, 8};
constexpr Range kPlace1{Buffer::kRecv, 8, 8}, kPlace2{Buffer::kRecv, 16, 8};

struct Wire final : Transport {
  std::vector<int64_t> sent;

  std::string_view name() const override { return "wire"; }
  size_t max_payload() const override { return 64; }
  bool try_send(PeerId, const PacketHeader&, std::span<const std::byte> payload) override {
    std::memcpy(&sent.emplace_back(), payload.data(), payload.size());
    return true;
  }
  int progress(PacketSink&) override { return 0; }
};

// Adds what ranks 1 and 2 send to its own, and sends the sum to rank 1.
class CollectiveTest : public testing::Test {
 protected:
  Schedule schedule(bool only_reader) {
    Schedule s;
    const std::vector<StepId> received = {s.receive(1, 0, kPlace1), s.receive(2, 0, kPlace2)};
    const StepId sum = s.reduce(kSum, {{Buffer::kSend, 0, 8}, kPlace1, kPlace2}, received);
    if (only_reader) s.only_reader(sum, received);
    s.send(1, 1, kSum, {sum});
    return s;
  }
  void arrives_from(uint32_t rank, int64_t value) {
    PacketHeader header;
    header.kind = PacketKind::kEager;
    header.source = rank;
    header.bytes = sizeof value;
    header.descriptor = descriptor;
    messenger.on_packet(header, std::as_bytes(std::span(&value, 1)));
  }

  const Descriptor descriptor{static_cast<uint8_t>(Kind::kAllReduce), FLOE_SUM, FLOE_INT64, 1, 0, 1};
  Wire wire;
  Messenger messenger{1, 0, {{}, {&wire, 0}, {&wire, 1}}};
  const int64_t mine = 1;
  std::array<int64_t, 3> recv = {-1, -1, -1};
};

TEST_F(CollectiveTest, TheLastToArriveIsAddedFromItsPacketIfNothingElseReadsIt) {
  ScheduledCollective collective(descriptor, schedule(true), &mine, recv.data(), 3, nullptr);
  collective.step(messenger);
  arrives_from(2, 20);
  EXPECT_THAT(recv, ElementsAre(-1, -1, 20));
  arrives_from(1, 300);
  EXPECT_THAT(recv, ElementsAre(321, -1, 20));
  EXPECT_EQ(collective.step(messenger), Poll::kDone);
}

TEST_F(CollectiveTest, WhatOthersMayReadIsWritten) {
  ScheduledCollective collective(descriptor, schedule(false), &mine, recv.data(), 3, nullptr);
  collective.step(messenger);
  arrives_from(2, 20);
  arrives_from(1, 300);
  EXPECT_EQ(collective.step(messenger), Poll::kDone);
  EXPECT_THAT(recv, ElementsAre(321, 300, 20));
}

TEST_F(CollectiveTest, WhatIsPassedOnLeavesBeforeTheNextPacketIsRead) {
  for (const bool only_reader : {true, false}) {
    wire.sent.clear();
    ScheduledCollective collective(descriptor, schedule(only_reader), &mine, recv.data(), 3, nullptr);
    collective.step(messenger);
    arrives_from(1, 300);
    EXPECT_THAT(wire.sent, ElementsAre());
    arrives_from(2, 20);
    EXPECT_THAT(wire.sent, ElementsAre(321));
  }
}

TEST_F(CollectiveTest, WhatCameBeforeItsReceiveIsAddedOnce) {
  arrives_from(1, 300);
  arrives_from(2, 20);
  ScheduledCollective collective(descriptor, schedule(true), &mine, recv.data(), 3, nullptr);
  EXPECT_EQ(collective.step(messenger), Poll::kDone);
  EXPECT_EQ(recv[0], 321);
  EXPECT_THAT(wire.sent, ElementsAre(321));
}

}  // namespace
}  // namespace floe
