// Peers that end: killed, closed, forked.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "fixture.h"

namespace floe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FabricClosingTest : public ProviderTest {
 protected:
  // This side of a conversation with `other`, whose stream has the number 1.
  void connect(Process& other) {
    transport_ = open_transport(provider());
    peer_ = *transport_->add_peer(receive_line(other.socket()), "rank 1 (host b)");
    send_line(other.socket(), transport_->address());
    receive_line(other.socket());
  }
  // The other side, in its own process.
  void connect(int socket) {
    transport_ = open_transport(provider());
    send_line(socket, transport_->address());
    peer_ = *transport_->add_peer(receive_line(socket), "rank 0");
    send_line(socket, "added");
  }
  // At most a window: a lost peer takes everything.
  void send_some(uint64_t limit) {
    limit = std::min(limit, sent_ + fabric::kWindow);
    while (sent_ < limit && transport_->try_send(peer_, stream_.header(sent_), stream_.payload(sent_)))
      ++sent_;
  }
  bool until(const std::function<bool()>& done, Millis limit = kLong) {
    return progress_until({{transport_.get(), &received_}}, done, limit);
  }

  std::unique_ptr<FabricTransport> transport_;
  PeerId peer_ = 0;
  Stream stream_{0, largest()};
  uint64_t sent_ = 0;
  Collector received_{2, largest()};
};

FLOE_ALL_PROVIDERS(FabricClosingTest);

TEST_P(FabricClosingTest, KilledPeerIsReportedOnceOrRefusesPackets) {
  if (provider() == "shm") GTEST_SKIP() << "libfabric's shm keeps the spin lock that a killed peer held";
  Process other([&](int socket) {
    connect(socket);
    stream_ = Stream(1, largest());
    until([&] {
      send_some(received_.count(0));
      return false;
    });
    return 1;
  });
  connect(other);
  // Every answer says what has been consumed: some of the window is left for after the death, as a provider
  // can only tell that a send failed.
  ASSERT_TRUE(until([&] {
    send_some(100);
    return received_.count(1) == 100;
  }));
  send_some(100 + fabric::kWindow / 2);
  other.kill();
  const uint64_t before = sent_;
  until(
      [&] {
        send_some(UINT64_MAX);
        return !received_.losses().empty();
      },
      notices_loss() ? kLong : Millis(500));
  if (!notices_loss() && received_.losses().empty()) {
    EXPECT_LE(sent_, before + fabric::kWindow);
    return;
  }
  ASSERT_THAT(received_.losses(), SizeIs(1));
  const auto& [peer, why] = received_.losses()[0];
  EXPECT_EQ(peer, peer_);
  EXPECT_EQ(why.code(), FLOE_ERR_PEER);
  EXPECT_THAT(why.message(), HasSubstr("rank 1 (host b)"));
  EXPECT_THAT(why.message(), HasSubstr("provider"));
  // Packets to it are dropped from now on, and nothing is said again.
  EXPECT_TRUE(transport_->try_send(peer_, stream_.header(0), {}));
  transport_->progress(received_);
  EXPECT_THAT(received_.losses(), SizeIs(1));
}

TEST_P(FabricClosingTest, PeerKilledWhileIdleIsNoticedBySending) {
  if (!notices_loss()) GTEST_SKIP() << "provider " << provider() << " never says that a connection is gone";
  Process other([&](int socket) {
    connect(socket);
    until([] { return false; });
    return 1;
  });
  connect(other);
  ASSERT_TRUE(until([&] {
    send_some(1);
    return sent_ == 1 && transport_->idle();
  }));
  other.kill();
  ::usleep(100'000);
  EXPECT_TRUE(until([&] {
    send_some(UINT64_MAX);
    return !received_.losses().empty();
  }));
}

// What a rank sent before it left is not lost, although the others still send to it.
TEST_P(FabricClosingTest, LastPacketsOfAPeerThatClosesArrive) {
  constexpr uint64_t kPackets = 500;
  Process other([&](int socket) {
    connect(socket);
    stream_ = Stream(1, largest());
    receive_line(socket);
    const bool sent = until([&] {
      send_some(kPackets);
      return sent_ == kPackets && transport_->idle();
    });
    transport_.reset();
    send_line(socket, "closed");
    return sent ? 0 : 1;
  });
  connect(other);
  send_line(other.socket(), "go");
  EXPECT_TRUE(until([&] {
    send_some(kPackets * 3 / 4);
    return received_.count(1) == kPackets;
  })) << received_.count(1)
      << " packets arrived; lost: "
      << (received_.losses().empty() ? "" : received_.losses()[0].second.message());
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(FabricClosingTest, ClosingWhileAPeerFloodsEnds) {
  Process other([&](int socket) {
    connect(socket);
    stream_ = Stream(1, largest());
    until(
        [&] {
          send_some(UINT64_MAX);
          return false;
        },
        Millis(1000));
    return 0;
  });
  connect(other);
  ASSERT_TRUE(until([&] {
    send_some(UINT64_MAX);
    return received_.count(1) > 200;
  }));
  transport_.reset();
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(FabricClosingTest, ForkedChildThatDestroysItsCopyLeavesTheParentsAlone) {
  Process other([&](int socket) {
    connect(socket);
    stream_ = Stream(1, largest());
    return until([&] {
      send_some(200);
      return sent_ == 200 && transport_->idle() && received_.count(0) == 200;
    })
               ? 0
               : 1;
  });
  connect(other);
  const auto both_half_way = [&] {
    send_some(100);
    return received_.count(1) >= 100 && sent_ == 100;
  };
  ASSERT_TRUE(until(both_half_way));
  Process child([&](int) {
    transport_.reset();
    return 0;
  });
  ASSERT_EQ(child.wait(), 0);
  EXPECT_TRUE(until([&] {
    send_some(200);
    return received_.count(1) == 200 && sent_ == 200 && transport_->idle();
  }));
  EXPECT_EQ(other.wait(), 0);
}

// libfabric's shm names its files by process, user and a number, and leaves them when it is killed.
TEST_F(FabricTest, WhatAKilledProcessWithThisIdHasLeftIsNotInTheWay) {
  Process child([](int) {
    std::vector<std::string> left;
    for (const int number : {0, 1}) {
      left.push_back("/dev/shm/" + std::to_string(::getpid()) + ":" + std::to_string(::getuid()) + ":" +
                     std::to_string(number));
      std::ofstream(left.back()) << "left";
    }
    FabricOptions options;
    options.provider = "shm";
    options.one_host = true;
    const auto transport = FabricTransport::open(options);
    if (!transport.ok()) std::fprintf(stderr, "%s\n", transport.status().message().c_str());
    for (const std::string& file : left) ::unlink(file.c_str());
    return transport.ok() ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace floe
