#include "boot/tcp_store.h"

#include <gmock/gmock.h>

#include <barrier>
#include <thread>

#include "store_fixture.h"

namespace floe {
namespace {

using test::soon;
using test::TcpStoreTest;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(TcpStoreTest, GivesBackWhatWasSet) {
  const auto a = client(), b = client();
  ASSERT_TRUE(a->set("k", "one").ok());
  EXPECT_EQ(value(*b, "k"), "one");
  ASSERT_TRUE(a->set("k", "two").ok());
  EXPECT_EQ(value(*b, "k"), "two");
  const std::string binary("\0\xff\n", 3), longest(Store::kMaxValue, 'v'), long_key(Store::kMaxKey, 'k');
  for (const std::string& v : {std::string(), binary, longest}) {
    ASSERT_TRUE(b->set(long_key, v).ok());
    EXPECT_EQ(value(*a, long_key), v);
  }
}

TEST_F(TcpStoreTest, AMissingKeyIsATimeoutAndTheStoreStaysUsable) {
  const auto store = client();
  for (const uint64_t ms : {0, 1, 50}) {
    const auto absent = store->get("nobody-sets-this", Deadline::in_ms(ms));
    ASSERT_FALSE(absent.ok());
    EXPECT_EQ(absent.status().code(), FLOE_ERR_TIMEOUT);
    EXPECT_THAT(absent.status().message(),
                AllOf(HasSubstr("nobody-sets-this"), HasSubstr(std::to_string(server_->port()))));
  }
  ASSERT_TRUE(store->set("k", "v").ok());
  // A deadline that has passed still asks: this is how missing ranks are told from those that came.
  EXPECT_EQ(*store->get("k", Deadline::in_ms(0)), "v");
}

TEST_F(TcpStoreTest, GetWaitsForTheKey) {
  const auto waiting = client(), setting = client();
  std::string seen;
  std::thread waiter([&] { seen = value(*waiting, "late"); });
  std::this_thread::sleep_for(Millis(50));
  ASSERT_TRUE(setting->set("late", "here").ok());
  waiter.join();
  EXPECT_EQ(seen, "here");
}

TEST_F(TcpStoreTest, ARemovedKeyIsGone) {
  const auto store = client();
  ASSERT_TRUE(store->set("k", "v").ok());
  EXPECT_TRUE(store->remove("k").ok());
  EXPECT_EQ(store->get("k", Deadline::in_ms(0)).status().code(), FLOE_ERR_TIMEOUT);
  EXPECT_TRUE(store->remove("k").ok());
}

TEST_F(TcpStoreTest, RefusesWhatIsTooLongAndStaysUsable) {
  const auto store = client();
  EXPECT_FALSE(store->set(std::string(Store::kMaxKey + 1, 'k'), "v").ok());
  EXPECT_FALSE(store->set("", "v").ok());
  EXPECT_FALSE(store->set("k", std::string(Store::kMaxValue + 1, 'v')).ok());
  ASSERT_TRUE(store->set("k", "v").ok());
  EXPECT_EQ(value(*store, "k"), "v");
}

// What every communicator does at its start: all set one key, all read all keys.
TEST_F(TcpStoreTest, ManyRanksExchangeAtOnce) {
  constexpr int kRanks = 96;  // more than may be pending at a time
  std::vector<std::thread> ranks;
  std::atomic<int> right = 0;
  std::barrier all(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      all.arrive_and_wait();
      const auto store = client();
      if (!store || !store->set(fmt::format("rank/{}", rank), std::to_string(rank)).ok()) return;
      for (int other = 0; other < kRanks; ++other)
        right += value(*store, fmt::format("rank/{}", other)) == std::to_string(other);
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(right, kRanks * kRanks);
}

TEST_F(TcpStoreTest, IsFullAtItsLimitAndHasRoomAgainAfterRemove) {
  const auto store = client();
  const std::string big(Store::kMaxValue, 'v');
  int stored = 0;
  Status last;
  for (; stored < 20'000 && last.ok(); ++stored) last = store->set(fmt::format("key/{:08}", stored), big);
  EXPECT_EQ(last.code(), FLOE_ERR_STORE);
  EXPECT_THAT(last.message(), HasSubstr("full"));
  EXPECT_NEAR(stored, (64 << 20) / (4096 + 12), 2);
  ASSERT_TRUE(store->set("key/00000000", big).ok()) << "replacing takes no more room";
  ASSERT_TRUE(store->remove("key/00000001").ok());
  EXPECT_TRUE(store->set("key/another", big).ok());
}

TEST_F(TcpStoreTest, AServerThatGoesEndsAWaitingGet) {
  const auto store = client();
  std::thread stopper([&] {
    std::this_thread::sleep_for(Millis(50));
    server_.reset();
  });
  const auto nothing = store->get("k", soon());
  stopper.join();
  EXPECT_EQ(nothing.status().code(), FLOE_ERR_STORE);
  EXPECT_THAT(nothing.status().message(), AllOf(HasSubstr("'k'"), HasSubstr("closed the connection")));
  const Status after = store->set("k", "v");
  EXPECT_EQ(after.code(), FLOE_ERR_STORE);
  EXPECT_THAT(after.message(), HasSubstr("earlier error"));
}

TEST_F(TcpStoreTest, StopListeningKeepsClientsAndRefusesNewOnes) {
  const auto store = client();
  server_->stop_listening();
  server_->stop_listening();
  const auto late = TcpStore::connect("127.0.0.1", server_->port(), Deadline::in_ms(100));
  EXPECT_FALSE(late.ok());
  ASSERT_TRUE(store->set("k", "v").ok());
  EXPECT_EQ(value(*store, "k"), "v");
}

TEST_F(TcpStoreTest, APortInUseIsAnErrorThatSaysWhatToDo) {
  const auto second = TcpStoreServer::start("127.0.0.1", server_->port(), kRanks);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), FLOE_ERR_STORE);
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr(std::to_string(server_->port())), HasSubstr("FLOE_STORE_PORT")));
}

TEST_F(TcpStoreTest, AClientMayStartBeforeTheServer) {
  const uint16_t port = server_->port();
  server_.reset();
  std::thread starter([&] {
    std::this_thread::sleep_for(Millis(200));
    server_ = start("127.0.0.1", port);
  });
  const auto store = TcpStore::connect("127.0.0.1", port, soon());
  starter.join();
  EXPECT_TRUE(store.ok()) << store.status().message();
}

TEST_F(TcpStoreTest, WithoutAServerTheErrorNamesHostPortTimeAndReason) {
  const uint16_t port = server_->port();
  server_.reset();
  const auto store = TcpStore::connect("127.0.0.1", port, Deadline::in_ms(150));
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), FLOE_ERR_STORE);
  EXPECT_THAT(store.status().message(),
              AllOf(HasSubstr(fmt::format("127.0.0.1:{}", port)), HasSubstr("within 0."),
                    HasSubstr("Connection refused"), HasSubstr("MASTER_ADDR")));
}

TEST_F(TcpStoreTest, AnAddressThatCannotBeResolvedIsAnErrorAtTheDeadline) {
  const auto store = TcpStore::connect("no such host", 1, Deadline::in_ms(50));
  EXPECT_EQ(store.status().code(), FLOE_ERR_STORE);
  EXPECT_THAT(store.status().message(), HasSubstr("can't be resolved"));
}

Status reach(const char* address, const TcpStoreServer& server, Deadline deadline) {
  return TcpStore::connect(address, server.port(), deadline).status();
}

// 127.0.0.2 is an address of this host on which only a server of all interfaces listens.
TEST_F(TcpStoreTest, ListensOnlyWhereItMust) {
  EXPECT_EQ(reach("127.0.0.1", *server_, soon()).message(), "");
  EXPECT_THAT(reach("127.0.0.2", *server_, Deadline::in_ms(50)).message(), HasSubstr("refused"));

  const auto localhost = start("localhost", 0);
  EXPECT_EQ(reach("localhost", *localhost, soon()).message(), "");
  EXPECT_THAT(reach("127.0.0.2", *localhost, Deadline::in_ms(50)).message(), HasSubstr("refused"));

  const auto everywhere = start("a-name-that-is-not-looked-up.invalid", 0);
  EXPECT_EQ(reach("127.0.0.2", *everywhere, soon()).message(), "");

  // TEST-NET-1: an address that is translated on the way here.
  const auto translated = start("192.0.2.1", 0);
  EXPECT_EQ(reach("127.0.0.2", *translated, soon()).message(), "");
}

}  // namespace
}  // namespace floe
