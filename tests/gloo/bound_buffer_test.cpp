// Buffers bound to a pair, as Gloo's older algorithms use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "errors.h"
#include "ranks.h"

namespace floe::gloo_transport {
namespace {

using abi::Millis;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ints = std::vector<int>;

constexpr int kSlot = 7;
constexpr size_t kLarge = (3 << 20) / sizeof(int);  // comes apart from its header

auto sender(abi::Context& context, int peer, Ints& data, int slot = kSlot) {
  return context.getPair(peer)->createSendBuffer(slot, data.data(), data.size() * sizeof(int));
}
auto receiver(abi::Context& context, int peer, Ints& data, int slot = kSlot) {
  return context.getPair(peer)->createRecvBuffer(slot, data.data(), data.size() * sizeof(int));
}

TEST(BoundBuffer, WritesPartsOfAnySizeWhereTheSenderSays) {
  for (const size_t count : {size_t{4}, size_t{1025}, kLarge}) {
    on_ranks(2, [&](auto context) {
      const int peer = 1 - context->rank;
      Ints in(count, -1), out(count);
      std::iota(out.begin(), out.end(), context->rank);
      const auto from = sender(*context, peer, out), to = receiver(*context, peer, in);
      from->send(2 * sizeof(int), (count - 2) * sizeof(int), sizeof(int));
      from->waitSend();
      to->waitRecv();
      Ints expected(count, -1);
      std::iota(expected.begin() + 1, expected.end() - 1, peer + 2);
      EXPECT_EQ(in, expected);
    });
  }
}

TEST(BoundBuffer, CountsMessagesBeforeTheReceiverIsThereToo) {
  Meeting sent(2);
  on_ranks(2, [&](auto context) {
    Ints data = {1, 2, 3}, other = {4};
    if (context->rank == 0) {
      const auto from = sender(*context, 1, data), aside = sender(*context, 1, other, kSlot + 1);
      for (int i = 0; i < 3; ++i) from->send(i * sizeof(int), sizeof(int), (2 - i) * sizeof(int));
      aside->send(0, sizeof(int), 0);
      for (int i = 0; i < 3; ++i) from->waitSend();
      aside->waitSend();
      sent();
      sent();
    } else {
      sent();
      Ints in(3), beside(1);
      const auto later = receiver(*context, 0, beside, kSlot + 1), to = receiver(*context, 0, in);
      for (int i = 0; i < 3; ++i) to->waitRecv();
      later->waitRecv();
      EXPECT_THAT(in, ElementsAre(3, 2, 1));
      EXPECT_THAT(beside, ElementsAre(4));
      sent();
    }
  });
}

// The memory of messages for a slot that is not open yet has a bound.
TEST(BoundBuffer, WhatNobodyTakesYetStaysWithTheSender) {
  constexpr int kMessages = 2000;
  constexpr size_t kCount = 1000;  // with its header
  Meeting looked(2);
  on_ranks(2, [&](auto context) {
    Ints data(kCount, 3);
    if (context->rank == 0) {
      const auto from = sender(*context, 1, data);
      std::atomic<int> completed = 0;
      std::thread sending([&] {
        for (int i = 0; i < kMessages; ++i, ++completed) {
          from->send(0, kCount * sizeof(int), 0);
          from->waitSend();
        }
      });
      for (int before = -1; before != completed;) {
        before = completed;
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
      EXPECT_LT(completed, kMessages / 2);
      looked();
      sending.join();
    } else {
      Ints in(kCount), other(1);
      const auto listening = receiver(*context, 0, other, kSlot + 1);
      looked();
      const auto to = receiver(*context, 0, in);
      for (int i = 0; i < kMessages; ++i) to->waitRecv();
      EXPECT_THAT(in, Each(3));
    }
  });
}

// Gloo's ReduceScatterHalvingDoubling does so, and over tcp a send takes megabytes out of the buffer at once.
TEST(BoundBuffer, WhatIsSentMayBeOverwrittenUpToSomeMegabytes) {
  for (const size_t count : {size_t{1}, size_t{1025}, kLarge}) {
    Meeting overwritten(2);
    on_ranks(2, [&](auto context) {
      Ints data(count, 1);
      if (context->rank == 0) {
        const auto from = sender(*context, 1, data);
        from->send(0, count * sizeof(int), 0);
        data.assign(count, 2);
        overwritten();
        from->waitSend();
      } else {
        overwritten();
        Ints in(count);
        const auto to = receiver(*context, 0, in);
        to->waitRecv();
        EXPECT_THAT(in, Each(1));
      }
    });
  }
}

// Nobody waits for the receive until the send has completed on both sides, as in tcp, whose thread reads.
TEST(BoundBuffer, ALargeMessageArrivesBeforeAnybodyWaitsForIt) {
  Meeting sent(2);
  on_ranks(2, [&](auto context) {
    Ints in(kLarge), out(kLarge, context->rank);
    const int peer = 1 - context->rank;
    const auto to = receiver(*context, peer, in), from = sender(*context, peer, out);
    for (int round = 0; round < 3; ++round) {
      from->send(0, kLarge * sizeof(int), 0);
      from->waitSend();
    }
    sent();
    for (int round = 0; round < 3; ++round) to->waitRecv();
    EXPECT_THAT(in, Each(peer));
  });
}

TEST(BoundBuffer, CarriesNoBytesFromNowhere) {
  on_ranks(4, [](auto context) {
    const int next = (context->rank + 1) % 4, previous = (context->rank + 3) % 4;
    const auto from = context->getPair(next)->createSendBuffer(kSlot, nullptr, 0);
    const auto to = context->getPair(previous)->createRecvBuffer(kSlot, nullptr, 0);
    from->send(0, 0, 0);
    to->waitRecv();
    from->waitSend();
  });
}

TEST(BoundBuffer, SharesAContextWithUnboundOnes) {
  on_ranks(2, [](auto context) {
    const int peer = 1 - context->rank;
    Ints in(2, -1), out = {context->rank, context->rank + 10};
    const auto unbound_in = context->createUnboundBuffer(&in[0], sizeof(int));
    const auto unbound_out = context->createUnboundBuffer(&out[0], sizeof(int));
    const auto to = context->getPair(peer)->createRecvBuffer(kSlot, &in[1], sizeof(int));
    const auto from = context->getPair(peer)->createSendBuffer(kSlot, &out[1], sizeof(int));
    unbound_in->recv(peer, kSlot, 0, abi::kRestOfBuffer);
    from->send(0, sizeof(int), 0);
    unbound_out->send(peer, kSlot, 0, abi::kRestOfBuffer);
    to->waitRecv();
    EXPECT_TRUE(unbound_in->waitRecv(nullptr, abi::kUnsetTimeout));
    EXPECT_TRUE(unbound_out->waitSend(nullptr, abi::kUnsetTimeout));
    from->waitSend();
    EXPECT_THAT(in, ElementsAre(peer, peer + 10));
  });
}

TEST(BoundBuffer, RefusesWrongArgumentsAndGoesOn) {
  on_ranks(2, [](auto context) {
    using Invalid = ::gloo::InvalidOperationException;
    const int peer = 1 - context->rank;
    Ints data(2);
    const auto from = sender(*context, peer, data), to = receiver(*context, peer, data);
    EXPECT_THROW(from->send(4, 5, 0), Invalid);
    EXPECT_THROW(from->send(4, SIZE_MAX - 3, 0), Invalid);
    EXPECT_THROW(from->waitRecv(), Invalid);
    EXPECT_THROW(receiver(*context, peer, data), Invalid);  // the slot has a buffer
    EXPECT_THROW(sender(*context, context->rank, data), Invalid);
    from->send(0, 8, 0);
    to->waitRecv();
    from->waitSend();
  });
}

TEST(BoundBuffer, AWriteBeyondTheReceiversBufferEndsTheContext) {
  Meeting done(2);
  on_ranks(2, [&](auto context) {
    const int peer = 1 - context->rank;
    Ints in(1, -1), out(2);
    const auto from = sender(*context, peer, out), to = receiver(*context, peer, in);
    if (context->rank == 0) {
      from->send(0, 8, 0);
      EXPECT_THROW(to->waitRecv(), ::gloo::IoException);
    } else {
      EXPECT_THAT([&] { to->waitRecv(); }, ThrowsMessage<::gloo::IoException>(HasSubstr(
                                               "rank 0 reaches for 8 bytes at offset 0 of a buffer of 4")));
      EXPECT_THAT(in, ElementsAre(-1));
    }
    done();
  });
}

TEST(BoundBuffer, ATimeoutNamesPeerAndSlot) {
  on_ranks(2, [](auto context) {
    if (context->rank == 1) {
      Ints data(1);
      const auto to = receiver(*context, 0, data);
      EXPECT_THROW(to->waitRecv(), ::gloo::IoException);
      return;
    }
    context->timeout_ = Millis(50);
    Ints data(1);
    const auto to = receiver(*context, 1, data);
    EXPECT_THAT([&] { to->waitRecv(); },
                ThrowsMessage<::gloo::IoException>(
                    AllOf(HasSubstr("recv from rank 1, slot 7"), HasSubstr("Timed out waiting 50ms"))));
  });
}

// For the first time a receiver that has no buffer yet holds a large message up.
TEST(BoundBuffer, ASendThatNobodyTakesTimesOut) {
  Meeting over(2);
  on_ranks(2, [&](auto context) {
    if (context->rank == 1) {
      over();
      return;
    }
    Ints data(kLarge);
    const auto from = sender(*context, 1, data);
    context->timeout_ = Millis(50);
    from->send(0, kLarge * sizeof(int), 0);
    EXPECT_THAT([&] { from->waitSend(); },
                ThrowsMessage<::gloo::IoException>(
                    AllOf(HasSubstr("send to rank 1, slot 7"), HasSubstr("Timed out waiting 50ms"))));
    over();
  });
}

TEST(BoundBuffer, APeerThatHasLeftIsNamedToWhoeverWaits) {
  on_ranks(2, [](auto context) {
    if (context->rank == 1) return;
    Ints data(1);
    const auto to = receiver(*context, 1, data);
    EXPECT_THAT([&] { to->waitRecv(); }, ThrowsMessage<::gloo::IoException>(HasSubstr("rank 1")));
  });
}

TEST(BoundBuffer, MessagesOutliveTheirSender) {
  Meeting gone(3);
  on_ranks(3, [&](std::shared_ptr<abi::Context> context) {
    Ints data(1, context->rank);
    if (context->rank != 0) {
      auto from = sender(*context, 0, data);
      from->send(0, sizeof(int), 0);
      from->waitSend();
      from.reset();
      context.reset();
      gone();
      return;
    }
    gone();
    Ints first(1), second(1);
    const auto one = receiver(*context, 1, first), two = receiver(*context, 2, second);
    one->waitRecv();
    two->waitRecv();
    EXPECT_EQ(first[0] + 10 * second[0], 21);
  });
}

TEST(BoundBuffer, ADestroyedBufferIsNotWrittenAnyMore) {
  Meeting destroyed(2), sent(2);
  on_ranks(2, [&](std::shared_ptr<abi::Context> context) {
    Ints data(4, context->rank);
    if (context->rank == 0) {
      auto to = receiver(*context, 1, data);
      to.reset();
      destroyed();
      sent();
      EXPECT_THAT(data, Each(0));
    } else {
      const auto from = sender(*context, 0, data);
      destroyed();
      from->send(0, 4, 0);
      from->waitSend();
      sent();
    }
  });
}

}  // namespace
}  // namespace floe::gloo_transport
