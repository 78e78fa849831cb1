#include <poll.h>
#include <unistd.h>

#include "fabric/fabric_transport.h"
#include "fixture.h"

namespace floe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class FabricTransportTest : public ProviderTest {};
FLOE_ALL_PROVIDERS(FabricTransportTest);

struct Two {
  explicit Two(const std::string& provider) : a(open_transport(provider), 0), b(open_transport(provider), 1) {
    a.peer = *a.transport->add_peer(b.transport->address(), "rank 1");
    b.peer = *b.transport->add_peer(a.transport->address(), "rank 0");
  }
  // 1.17's shm shares memory between endpoints of one process: none may close with another's sends under way.
  ~Two() {
    until([&] { return a.transport->idle() && b.transport->idle(); });
  }
  bool until(const std::function<bool()>& done) {
    return progress_until({{a.transport.get(), &a.received}, {b.transport.get(), &b.received}}, done);
  }
  // Both ways, so that the connection stands.
  void exchange_first() {
    ASSERT_TRUE(until([&] {
      a.send_some(1);
      b.send_some(1);
      return a.received.count(1) == 1 && b.received.count(0) == 1;
    }));
  }
  End a, b;
};

TEST_P(FabricTransportTest, DeliversBothStreamsInOrderByteForByte) {
  constexpr uint64_t kPackets = 10'000;
  Two two(provider());
  ASSERT_TRUE(two.until([&] {
    two.a.send_some(kPackets);
    two.b.send_some(kPackets);
    return two.a.received.count(1) == kPackets && two.b.received.count(0) == kPackets;
  })) << two.a.received.count(1)
      << " and " << two.b.received.count(0) << " packets arrived";
  EXPECT_THAT(two.a.received.losses(), IsEmpty());
  EXPECT_EQ(two.a.transport->dropped() + two.b.transport->dropped(), 0u);
}

TEST_P(FabricTransportTest, DeliversBetweenProcesses) {
  constexpr uint64_t kPackets = 10'000;
  Process other([&](int socket) {
    End end(open_transport(provider()), 1);
    send_line(socket, end.transport->address());
    end.peer = *end.transport->add_peer(receive_line(socket), "rank 0");
    send_line(socket, "added");
    receive_line(socket);
    const bool arrived = progress_until({{end.transport.get(), &end.received}}, [&] {
      end.send_some(kPackets);
      return end.received.count(0) == kPackets && end.sent == kPackets && end.transport->idle();
    });
    receive_line(socket);  // a credit that meets a closed socket resets it, with what rank 0 has not read
    return arrived ? 0 : 1;
  });
  End end(open_transport(provider()), 0);
  end.peer = *end.transport->add_peer(receive_line(other.socket()), "rank 1");
  send_line(other.socket(), end.transport->address());
  receive_line(other.socket());
  send_line(other.socket(), "go");
  EXPECT_TRUE(progress_until({{end.transport.get(), &end.received}},
                             [&] {
                               end.send_some(kPackets);
                               return end.received.count(1) == kPackets && end.sent == kPackets &&
                                      end.transport->idle();
                             }))
      << end.received.count(1) << " packets arrived";
  send_line(other.socket(), "arrived");
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(FabricTransportTest, OneWayStreamNeedsNoReverseTraffic) {
  constexpr uint64_t kPackets = 1'000;
  Two two(provider());
  EXPECT_TRUE(two.until([&] {
    two.a.send_some(kPackets);
    return two.b.received.count(0) == kPackets;
  }));
}

TEST_P(FabricTransportTest, FloodOfAReceiverThatDoesNotProgressStopsAtTheWindow) {
  Two two(provider());
  two.exchange_first();
  const uint64_t before = two.a.sent;
  const Deadline enough = Deadline::in(Millis(300));
  while (!enough.passed()) {
    two.a.send_some(UINT64_MAX);
    two.a.transport->progress(two.a.received);
  }
  EXPECT_LE(two.a.sent - before, fabric::kWindow);
  EXPECT_EQ(two.b.received.count(0), before);
  const uint64_t all = two.a.sent + 100;
  EXPECT_TRUE(two.until([&] {
    two.a.send_some(all);
    return two.b.received.count(0) == all;
  }));
}

// Both send until nothing more is taken while neither takes anything: no credit may be stuck behind them.
TEST_P(FabricTransportTest, MutualFloodDrains) {
  Two two(provider());
  two.exchange_first();
  for (int i = 0; i < 1000; ++i) {
    two.a.send_some(UINT64_MAX);
    two.b.send_some(UINT64_MAX);
  }
  EXPECT_TRUE(two.until([&] {
    return two.a.received.count(1) == two.b.sent && two.b.received.count(0) == two.a.sent &&
           two.a.transport->idle() && two.b.transport->idle();
  }));
  const uint64_t more = two.a.sent + 5 * fabric::kWindow;
  EXPECT_TRUE(two.until([&] {
    two.a.send_some(more);
    return two.b.received.count(0) == more;
  }));
}

TEST_P(FabricTransportTest, EightSendersToOneReceiver) {
  constexpr uint32_t kSenders = 8;
  constexpr uint64_t kPackets = 500;
  const auto receiver = open_transport(provider());
  Collector received(kSenders, largest());
  std::vector<std::unique_ptr<End>> senders;
  std::vector<Pair> all = {{receiver.get(), &received}};
  for (uint32_t i = 0; i < kSenders; ++i) {
    senders.push_back(std::make_unique<End>(open_transport(provider()), i, 1));
    ASSERT_TRUE(receiver->add_peer(senders[i]->transport->address(), "a sender").ok());
    senders[i]->peer = *senders[i]->transport->add_peer(receiver->address(), "the receiver");
    all.emplace_back(senders[i]->transport.get(), &senders[i]->received);
  }
  EXPECT_TRUE(progress_until(all,
                             [&] {
                               for (auto& sender : senders) sender->send_some(kPackets);
                               return received.total() == kSenders * kPackets;
                             }))
      << received.total() << " packets arrived";
}

TEST_P(FabricTransportTest, PacketAboveTheLargestSizeIsALoss) {
  Two two(provider());
  two.exchange_first();
  const std::vector<std::byte> large(two.a.transport->max_payload() + 1);
  EXPECT_TRUE(two.a.transport->try_send(two.a.peer, PacketHeader{}, large));
  two.a.transport->progress(two.a.received);
  ASSERT_EQ(two.a.received.losses().size(), 1u);
  EXPECT_EQ(two.a.received.losses()[0].second.code(), FLOE_ERR_INTERNAL);
}

TEST_P(FabricTransportTest, SleepsUntilAPacketComes) {
  Process other([&](int socket) {
    End end(open_transport(provider()), 1);
    send_line(socket, end.transport->address());
    end.peer = *end.transport->add_peer(receive_line(socket), "rank 0");
    send_line(socket, "added");
    for (uint64_t round = 1; round <= 5; ++round) {
      receive_line(socket);
      ::usleep(50'000);  // the other sleeps by now
      const bool sent = progress_until({{end.transport.get(), &end.received}}, [&] {
        end.send_some(round);
        return end.sent == round && end.transport->idle();
      });
      if (!sent) return 1;
    }
    receive_line(socket);
    return 0;
  });
  End end(open_transport(provider()), 0);
  end.peer = *end.transport->add_peer(receive_line(other.socket()), "rank 1");
  send_line(other.socket(), end.transport->address());
  receive_line(other.socket());
  const int fd = end.transport->wait_fd();
  if (provider() != "shm") {
    ASSERT_GE(fd, 0);
  }
  int passes = 0;
  for (uint64_t round = 1; round <= 5; ++round) {
    send_line(other.socket(), "send");
    const Deadline deadline = Deadline::in(kLong);
    while (end.received.count(1) < round && !deadline.passed()) {
      if (round > 1) ++passes;  // connecting takes many
      if (end.transport->progress(end.received) != 0 || !end.transport->prepare_wait()) continue;
      pollfd waited{fd, POLLIN, 0};
      const Clock::time_point start = Clock::now();
      // With a descriptor a second is far more than it takes, without one the caller polls.
      ASSERT_TRUE(::poll(&waited, fd >= 0 ? 1 : 0, fd >= 0 ? 5000 : 1) > 0 || fd < 0)
          << "slept through a packet for " << seconds_since(start) << " s";
    }
    ASSERT_EQ(end.received.count(1), round);
  }
  // It slept: a descriptor that is always readable would mean thousands of passes.
  EXPECT_LT(passes, 1000);
  send_line(other.socket(), "end");
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(FabricTransportTest, TheSameEndpointTwiceIsOnePeer) {
  Two two(provider());
  two.exchange_first();
  const auto again = two.a.transport->add_peer(two.b.transport->address(), "rank 1");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, two.a.peer);
  two.a.transport->remove_peer(*again);
  EXPECT_TRUE(two.until([&] {  // one reference is left
    two.b.send_some(5);
    return two.a.received.count(1) == 5;
  }));
}

// A communicator ends and the next begins at different times on the two sides.
TEST_P(FabricTransportTest, RemovedPeerIsSilentAndComesBackWhereItWas) {
  Two two(provider());
  two.exchange_first();
  two.a.transport->remove_peer(two.a.peer);
  PacketHeader unwanted;
  ASSERT_TRUE(two.until([&] { return two.b.transport->try_send(two.b.peer, unwanted, {}); }));
  const Deadline while_arriving = Deadline::in(Millis(100));
  two.until([&] { return while_arriving.passed(); });
  EXPECT_EQ(two.a.received.count(1), 1u);
  EXPECT_EQ(*two.a.transport->add_peer(two.b.transport->address(), "rank 1"), two.a.peer);
  EXPECT_TRUE(two.until([&] {
    two.a.send_some(100);
    two.b.send_some(100);
    return two.a.received.count(1) == 100 && two.b.received.count(0) == 100;
  }));
}

}  // namespace
}  // namespace floe
