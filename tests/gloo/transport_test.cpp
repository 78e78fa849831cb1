// What Gloo's collectives rely on: unbound buffers over floe, called through the declared vtables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "errors.h"
#include "ranks.h"

namespace floe::gloo_transport {
namespace {

using abi::kRestOfBuffer;
using abi::kUnsetTimeout;
using abi::Millis;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kSlot = 0x1337;
constexpr size_t kLarge = 3 << 20;

TEST(Transport, CarriesPartsOfBuffersOfAnySize) {
  for (const size_t count : {size_t{4}, kLarge / sizeof(int)}) {
    on_ranks(2, [&](auto context) {
      std::vector<int> data(count, -1);
      const auto buffer = buffer_of(*context, data);
      if (context->rank == 0) {
        std::iota(data.begin(), data.end(), 0);
        buffer->send(1, kSlot, 2 * sizeof(int), kRestOfBuffer);
        EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
      } else {
        int source = -1;
        buffer->recv(0, kSlot, sizeof(int), (count - 2) * sizeof(int));
        EXPECT_TRUE(buffer->waitRecv(&source, kUnsetTimeout));
        EXPECT_EQ(source, 0);
        std::vector<int> expected(count, -1);
        std::iota(expected.begin() + 1, expected.end() - 1, 2);
        EXPECT_EQ(data, expected);
      }
    });
  }
}

TEST(Transport, MatchesAllBitsOfASlotAndKeepsTheOrderInEach) {
  on_ranks(2, [](auto context) {
    constexpr uint64_t kHigh = kSlot | 1ull << 63;
    std::vector<int> data = {1, 2, 3};
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->send(1, kSlot, 0, sizeof(int));
      buffer->send(1, kHigh, sizeof(int), sizeof(int));
      buffer->send(1, kSlot, 2 * sizeof(int), sizeof(int));
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
    } else {
      data = {0, 0, 0};
      buffer->recv(0, kHigh, 0, sizeof(int));
      buffer->recv(0, kSlot, sizeof(int), sizeof(int));
      buffer->recv(0, kSlot, 2 * sizeof(int), sizeof(int));
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
      EXPECT_THAT(data, ElementsAre(2, 1, 3));
    }
  });
}

TEST(Transport, CountsCompletionsOfOneBuffer) {
  constexpr int kRanks = 4;
  on_ranks(kRanks, [](auto context) {
    std::vector<int> in(kRanks, -1), out = {context->rank * 10};
    const auto from = buffer_of(*context, out), to = buffer_of(*context, in);
    std::vector<int> sources, destinations;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == context->rank) continue;
      to->recv(peer, kSlot, peer * sizeof(int), sizeof(int));
      from->send(peer, kSlot, 0, kRestOfBuffer);
    }
    for (int i = 0; i < kRanks - 1; ++i) {
      EXPECT_TRUE(to->waitRecv(&sources.emplace_back(), kUnsetTimeout));
      EXPECT_TRUE(from->waitSend(&destinations.emplace_back(), kUnsetTimeout));
    }
    std::vector<int> expected = {0, 10, 20, 30}, others = {0, 1, 2, 3};
    expected[context->rank] = -1;
    std::erase(others, context->rank);
    EXPECT_EQ(in, expected);
    EXPECT_THAT(sources, ::testing::UnorderedElementsAreArray(others));
    EXPECT_THAT(destinations, ::testing::UnorderedElementsAreArray(others));
  });
}

TEST(Transport, AWaitEndsWithWhicheverOperationCompletes) {
  on_ranks(3, [](auto context) {
    std::vector<int> data(2);
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->recv(1, kSlot, 0, sizeof(int));  // rank 1 sends after rank 2's message was received
      buffer->recv(2, kSlot, sizeof(int), sizeof(int));
      int source = -1;
      EXPECT_TRUE(buffer->waitRecv(&source, kUnsetTimeout));
      EXPECT_EQ(source, 2);
      buffer->send(1, kSlot, 0, 0);
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
      EXPECT_TRUE(buffer->waitRecv(&source, kUnsetTimeout));
      EXPECT_EQ(source, 1);
      EXPECT_THAT(data, ElementsAre(1, 2));
    } else {
      data[0] = context->rank;
      if (context->rank == 1) {
        buffer->recv(0, kSlot, 0, 0);
        EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
      }
      buffer->send(0, kSlot, 0, sizeof(int));
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
    }
  });
}

TEST(Transport, ReceivesFromAnyOfTheListedRanksOnly) {
  Meeting sent(3);
  on_ranks(3, [&](auto context) {
    std::vector<int> data = {context->rank};
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      sent();  // both messages are there, or on their way
      std::vector<int> got;
      for (const std::vector<int>& sources : {std::vector{2}, std::vector{0, 0, 0, 0, 1, 2}}) {
        int source = -1;
        buffer->recv(sources, kSlot, 0, kRestOfBuffer);
        EXPECT_TRUE(buffer->waitRecv(&source, kUnsetTimeout));
        EXPECT_EQ(source, data[0]);
        got.push_back(source);
      }
      EXPECT_THAT(got, ElementsAre(2, 1));
    } else {
      buffer->send(0, kSlot, 0, kRestOfBuffer);
      sent();
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
    }
  });
}

TEST(Transport, CarriesMessagesOfNoBytesFromNowhere) {
  on_ranks(2, [](auto context) {
    const auto buffer = context->createUnboundBuffer(nullptr, 0);
    const int peer = 1 - context->rank;
    buffer->recv(peer, kSlot, 0, kRestOfBuffer);
    buffer->send(peer, kSlot, 0, kRestOfBuffer);
    EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
    EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
  });
}

TEST(Transport, RefusesWrongArgumentsAndGoesOn) {
  on_ranks(2, [](auto context) {
    std::vector<int> data = {0, context->rank};
    const auto buffer = buffer_of(*context, data);
    const int peer = 1 - context->rank;
    using Invalid = ::gloo::InvalidOperationException;
    EXPECT_THROW(buffer->send(peer, kSlot, 4, 5), Invalid);
    EXPECT_THROW(buffer->recv(peer, kSlot, 9, kRestOfBuffer), Invalid);
    EXPECT_THROW(buffer->recv(peer, kSlot, 4, SIZE_MAX - 3), Invalid);  // offset + nbytes overflows
    EXPECT_THROW(buffer->send(2, kSlot, 0, 4), Invalid);
    EXPECT_THROW(buffer->recv(-1, kSlot, 0, 4), Invalid);
    EXPECT_THROW(buffer->send(context->rank, kSlot, 0, 4), Invalid);
    EXPECT_THROW(buffer->recv(std::vector<int>{context->rank}, kSlot, 0, 4), Invalid);
    EXPECT_THROW(buffer->send(peer, 0xf10eULL << 48, 0, 4), Invalid);  // the plugin's own
    EXPECT_THROW(buffer->recv(peer, 0xf2ULL << 56, 0, 4), Invalid);
    EXPECT_THROW(context->getPair(context->rank)->createSendBuffer(0, nullptr, 0), Invalid);
    EXPECT_THROW(context->getPair(2), std::out_of_range);
    EXPECT_THROW(buffer->waitSend(nullptr, Millis(0)), ::gloo::IoException);  // none was posted
  });
}

TEST(Transport, PairsSendAndReceiveToo) {
  on_ranks(2, [](auto context) {
    std::vector<int> in = {-1}, out = {context->rank};
    const auto from = buffer_of(*context, out), to = buffer_of(*context, in);
    const auto& pair = context->getPair(1 - context->rank);
#if FLOE_GLOO_REVISION >= 3
    EXPECT_TRUE(pair->isConnected());
#endif
    pair->recv(to.get(), kSlot, 0, sizeof(int));
    pair->send(from.get(), kSlot, 0, sizeof(int));
    EXPECT_TRUE(to->waitRecv(nullptr, kUnsetTimeout));
    EXPECT_TRUE(from->waitSend(nullptr, kUnsetTimeout));
    EXPECT_THAT(in, ElementsAre(1 - context->rank));
  });
}

TEST(Transport, AnAbortEndsOneWait) {
  Meeting aborted(2);
  on_ranks(2, [&](auto context) {
    std::vector<int> data(1);
    const auto buffer = buffer_of(*context, data);
    const int peer = 1 - context->rank;
    buffer->recv(peer, kSlot, 0, kRestOfBuffer);
    std::thread aborter([&] { buffer->abortWaitRecv(); });
    EXPECT_FALSE(buffer->waitRecv(nullptr, kUnsetTimeout));
    aborter.join();
    buffer->abortWaitSend();
    EXPECT_FALSE(buffer->waitSend(nullptr, kUnsetTimeout));
    aborted();
    buffer->send(peer, kSlot, 0, kRestOfBuffer);
    EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
    EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
  });
}

TEST(Transport, ATimeoutNamesThePeerAndEndsTheContext) {
  on_ranks(2, [&](auto context) {
    std::vector<int> data(1);
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->recv(1, kSlot, 0, kRestOfBuffer);
      EXPECT_THAT([&] { buffer->waitRecv(nullptr, Millis(50)); },
                  ThrowsMessage<::gloo::IoException>(
                      AllOf(HasSubstr("Timed out waiting 50ms for recv operation"), HasSubstr("rank 1"))));
    } else {
      buffer->recv(0, kSlot + 1, 0, kRestOfBuffer);
      EXPECT_THROW(buffer->waitRecv(nullptr, kUnsetTimeout), ::gloo::IoException);
    }
    EXPECT_THROW(
        {
          buffer->send(1 - context->rank, kSlot, 0, kRestOfBuffer);
          buffer->waitSend(nullptr, kUnsetTimeout);
        },
        ::gloo::IoException);
  });
}

TEST(Transport, ANegativeTimeoutIsTheContexts) {
  on_ranks(2, [&](auto context) {
    std::vector<int> data(1);
    const auto buffer = buffer_of(*context, data);
    context->timeout_ = Millis(70);
    EXPECT_THAT([&] { buffer->waitRecv(nullptr, kUnsetTimeout); },
                ThrowsMessage<::gloo::IoException>(HasSubstr("Timed out waiting 70ms")));
  });
}

TEST(Transport, ADestroyedBufferIsNotWrittenAnyMore) {
  Meeting destroyed(2), sent(2);
  on_ranks(2, [&](auto context) {
    std::vector<int> data(kLarge / sizeof(int), context->rank);
    auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->recv(1, kSlot, 0, kRestOfBuffer);
      buffer.reset();
      destroyed();
      sent();
      EXPECT_THAT(data, Each(0));
    } else {
      destroyed();
      EXPECT_THROW(
          {
            buffer->send(0, kSlot, 0, kRestOfBuffer);
            buffer->waitSend(nullptr, kUnsetTimeout);
          },
          ::gloo::IoException);
      sent();
    }
  });
}

TEST(Transport, APeerThatLeavesIsNamed) {
  on_ranks(2, [](auto context) {
    std::vector<int> data(1);
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 1) return;
    const auto receive = [&] {  // rank 1 may have left before or after it is posted
      buffer->recv(1, kSlot, 0, kRestOfBuffer);
      buffer->waitRecv(nullptr, kUnsetTimeout);
    };
    EXPECT_THAT(receive, ThrowsMessage<::gloo::IoException>(HasSubstr("rank 1")));
  });
}

// The last messages of a rank arrive although it has gone.
TEST(Transport, AMessageOutlivesItsSender) {
  Meeting gone(2);
  on_ranks(2, [&](std::shared_ptr<abi::Context> context) {
    std::vector<int> data = {context->rank};
    auto buffer = buffer_of(*context, data);
    constexpr uint64_t kSlotOfACollective = kSlot | 1ull << 56;
    if (context->rank == 1) {
      buffer->send(0, kSlotOfACollective, 0, kRestOfBuffer);
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
      buffer.reset();
      context.reset();
      gone();
    } else {
      gone();
      buffer->recv(1, kSlotOfACollective, 0, kRestOfBuffer);
      EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
      EXPECT_THAT(data, ElementsAre(1));
    }
  });
}

TEST(Transport, ABufferKeepsItsContextAlive) {
  on_ranks(2, [](std::shared_ptr<abi::Context> context) {
    const int rank = context->rank;
    std::vector<int> in = {-1}, out = {rank};
    const auto from = buffer_of(*context, out), to = buffer_of(*context, in);
    context.reset();
    to->recv(1 - rank, kSlot, 0, kRestOfBuffer);
    from->send(1 - rank, kSlot, 0, kRestOfBuffer);
    EXPECT_TRUE(to->waitRecv(nullptr, kUnsetTimeout));
    EXPECT_TRUE(from->waitSend(nullptr, kUnsetTimeout));
    EXPECT_THAT(in, ElementsAre(1 - rank));
  });
}

#if FLOE_GLOO_REVISION >= 3
TEST(Transport, ConnectingPassesOnWhatTheStoreSays) {
  const auto floe = make_floe_context();
  const auto context = std::make_shared<Device>(floe.get(), "127.0.0.1")->createContext(0, 2);
  context->timeout_ = Millis(100);
  EXPECT_THAT([&] { context->createAndConnectAllPairs(std::make_shared<MemoryStore>()); },
              ThrowsMessage<::gloo::IoException>(
                  AllOf(HasSubstr("rank 0 of 2, connecting"), HasSubstr("the store said: no key"))));
}
#endif

TEST(Transport, AnUnconnectedContextSaysSo) {
  const auto floe = make_floe_context();
  const auto context = std::make_shared<Device>(floe.get(), "127.0.0.1")->createContext(0, 2);
  std::vector<int> data(1);
  const auto buffer = buffer_of(*context, data);
  EXPECT_THAT([&] { buffer->send(1, kSlot, 0, kRestOfBuffer); },
              ThrowsMessage<::gloo::InvalidOperationException>(HasSubstr("not connected yet")));
  EXPECT_THAT([&] { context->getPair(1)->createRecvBuffer(0, data.data(), 4); },
              ThrowsMessage<::gloo::InvalidOperationException>(HasSubstr("not connected yet")));
#if FLOE_GLOO_REVISION >= 3
  EXPECT_FALSE(context->getPair(1)->isConnected());
#endif
}

TEST(Transport, PairsConnectOneByOne) {
  Rendezvous rendezvous(3);
  on_ranks(3, [&](auto connected) {
    const auto floe = make_floe_context();
    const auto context = std::make_shared<Device>(floe.get(), "127.0.0.1")->createContext(connected->rank, 3);
    context->timeout_ = std::chrono::seconds(30);
    rendezvous.connect_pairs(*context);
    std::vector<int> in = {-1}, out = {context->rank};
    const auto from = buffer_of(*context, out), to = buffer_of(*context, in);
    to->recv((context->rank + 1) % 3, kSlot, 0, kRestOfBuffer);
    from->send((context->rank + 2) % 3, kSlot, 0, kRestOfBuffer);
    EXPECT_TRUE(to->waitRecv(nullptr, kUnsetTimeout));
    EXPECT_TRUE(from->waitSend(nullptr, kUnsetTimeout));
    EXPECT_THAT(in, ElementsAre((context->rank + 1) % 3));
  });
}

TEST(Transport, AnAddressOfSomethingElseIsRefused) {
  const auto floe = make_floe_context();
  const auto context = std::make_shared<Device>(floe.get(), "127.0.0.1")->createContext(1, 2);
  const std::string tcp = "127.0.0.1:4711";
  EXPECT_THAT(
      [&] {
        context->getPair(0)->connect({tcp.begin(), tcp.end()});
      },
      ThrowsMessage<::gloo::InvalidOperationException>(HasSubstr("no address of a floe rank 0")));
}

TEST(Transport, ConnectingPairsToARankThatHasGoneTimesOut) {
  const auto floe = make_floe_context();
  const auto context = std::make_shared<Device>(floe.get(), "127.0.0.1")->createContext(1, 2);
  context->timeout_ = Millis(100);
  const std::string gone = "127.0.0.1 1";
  EXPECT_THROW(context->getPair(0)->connect({gone.begin(), gone.end()}), ::gloo::IoException);
}

TEST(Transport, AContextOfOneRankConnects) {
  on_ranks(1, [](auto context) { EXPECT_EQ(context->size, 1); });
}

TEST(Transport, RanksThatDoNotExistAreRefused) {
  const auto floe = make_floe_context();
  const auto device = std::make_shared<Device>(floe.get(), "127.0.0.1");
  EXPECT_THROW(device->createContext(2, 2), ::gloo::InvalidOperationException);
  EXPECT_THROW(device->createContext(-1, 2), ::gloo::InvalidOperationException);
  EXPECT_THROW(device->createContext(0, 0), ::gloo::InvalidOperationException);
}

}  // namespace
}  // namespace floe::gloo_transport
