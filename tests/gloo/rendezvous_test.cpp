// A send on a slot of callers, whose highest byte is 0, ends when its receive has been posted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "errors.h"
#include "ranks.h"

namespace floe::gloo_transport {
namespace {

using abi::kRestOfBuffer;
using abi::kUnsetTimeout;
using abi::Millis;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kSlot = 0x1337;
constexpr uint64_t kCollective = 0x0100'0000'0000'1337;  // of Gloo's first kind of collective
constexpr Millis kSoon{50};

TEST(Rendezvous, ASendThatNobodyReceivesTimesOut) {
  Meeting timed_out(2);
  on_ranks(2, [&](auto context) {
    std::vector<int> data(1);
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->send(1, kSlot, 0, kRestOfBuffer);
      EXPECT_THAT([&] { buffer->waitSend(nullptr, kSoon); },
                  ThrowsMessage<::gloo::IoException>(
                      AllOf(HasSubstr("rank 0: send to rank 1: Timed out waiting 50ms for send operation"),
                            HasSubstr("rank 1 has not posted its receive"))));
    } else {
      buffer->recv(0, kSlot + 1, 0, kRestOfBuffer);  // of another slot: does not count
      EXPECT_THROW(buffer->waitRecv(nullptr, kUnsetTimeout), ::gloo::IoException);
    }
    timed_out();
  });
}

TEST(Rendezvous, ASendWaitsUntilItsReceiveIsPosted) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1} << 20}) {
    std::atomic<bool> posted = false;
    Meeting sent(2);
    on_ranks(2, [&](auto context) {
      std::vector<int> data(count, context->rank);
      const auto buffer = buffer_of(*context, data);
      if (context->rank == 0) {
        buffer->send(1, kSlot, 0, kRestOfBuffer);
        sent();
        EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
        EXPECT_TRUE(posted);
      } else {
        sent();
        posted = true;
        buffer->recv(0, kSlot, 0, kRestOfBuffer);
        EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
        EXPECT_THAT(data, ::testing::Each(0));
      }
    });
  }
}

TEST(Rendezvous, EachSendWaitsForAReceiveOfItsOwn) {
  on_ranks(2, [](auto context) {
    std::vector<int> data = {1, 2};
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->send(1, kSlot, 0, sizeof(int));
      buffer->send(1, kSlot, sizeof(int), sizeof(int));
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
      EXPECT_THROW(buffer->waitSend(nullptr, kSoon), ::gloo::IoException);
    } else {
      buffer->recv(0, kSlot, 0, sizeof(int));
      EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
      buffer->recv(0, kSlot + 1, 0, sizeof(int));
      EXPECT_THROW(buffer->waitRecv(nullptr, kUnsetTimeout), ::gloo::IoException);
    }
  });
}

TEST(Rendezvous, TheSourceOfAReceiveFromAnyIsToldAlthoughNobodyWaits) {
  Meeting sent(3);
  on_ranks(3, [&](auto context) {
    std::vector<int> data = {context->rank, context->rank};
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      for (const size_t offset : {size_t{0}, sizeof(int)})
        buffer->recv({0, 1, 2}, kSlot, offset, sizeof(int));
      sent();
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
      EXPECT_THAT(data, UnorderedElementsAre(1, 2));
    } else {
      buffer->send(0, kSlot, 0, sizeof(int));
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
      sent();
    }
  });
}

TEST(Rendezvous, TheSourceOfAReceiveFromAnyIsToldBeforeTheReceiverLeaves) {
  for (int round = 0; round < 20; ++round) {
    on_ranks(2, [](std::shared_ptr<abi::Context> context) {
      std::vector<int> data(1);
      auto buffer = buffer_of(*context, data);
      if (context->rank == 0) {
        buffer->recv(std::vector<int>{1}, kSlot, 0, kRestOfBuffer);
        EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
      } else {
        buffer->send(0, kSlot, 0, kRestOfBuffer);
        EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
      }
      buffer.reset();
      context.reset();
    });
  }
}

TEST(Rendezvous, SendsOfCollectivesWaitForNobody) {
  Meeting sent(2);
  on_ranks(2, [&](auto context) {
    std::vector<int> data = {context->rank};
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->send(1, kCollective, 0, kRestOfBuffer);
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
      sent();
    } else {
      sent();
      buffer->recv(0, kCollective, 0, kRestOfBuffer);
      EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
      EXPECT_THAT(data, ElementsAre(0));
    }
  });
}

TEST(Rendezvous, RanksThatExchangeMessagesWaitInAnyOrder) {
  for (const size_t count : {size_t{1}, size_t{1} << 20}) {
    for (const bool any : {false, true}) {
      on_ranks(2, [&](auto context) {
        const int peer = 1 - context->rank;
        std::vector<int> in(count, -1), out(count, context->rank);
        const auto to = buffer_of(*context, in), from = buffer_of(*context, out);
        if (any && context->rank == 0)
          to->recv({0, 1}, kSlot, 0, kRestOfBuffer);
        else
          to->recv(peer, kSlot, 0, kRestOfBuffer);
        from->send(peer, kSlot, 0, kRestOfBuffer);
        EXPECT_TRUE(from->waitSend(nullptr, kUnsetTimeout));
        EXPECT_TRUE(to->waitRecv(nullptr, kUnsetTimeout));
        EXPECT_THAT(in, ::testing::Each(peer));
      });
    }
  }
}

// As a script's isend whose work it drops.
TEST(Rendezvous, ASendThatNobodyWaitsForHarmsNobody) {
  Meeting destroyed(2);
  on_ranks(2, [&](auto context) {
    std::vector<int> data = {context->rank};
    auto buffer = buffer_of(*context, data);
    const int peer = 1 - context->rank;
    const auto exchange = [&](uint64_t slot) {
      const auto again = buffer_of(*context, data);
      if (context->rank == 0) {
        again->send(peer, slot, 0, kRestOfBuffer);
        EXPECT_TRUE(again->waitSend(nullptr, kUnsetTimeout));
      } else {
        again->recv(peer, slot, 0, kRestOfBuffer);
        EXPECT_TRUE(again->waitRecv(nullptr, kUnsetTimeout));
      }
    };
    if (context->rank == 0) buffer->send(peer, kSlot, 0, kRestOfBuffer);
    buffer.reset();
    destroyed();
    exchange(kSlot + 1);
    if (context->rank == 1) exchange(kSlot);  // that message, and then the next
    data[0] = 7;
    exchange(kSlot);
    EXPECT_THAT(data, ElementsAre(7));
  });
}

TEST(Rendezvous, AnAbortEndsAWaitForTheReceive) {
  Meeting aborted(2);
  on_ranks(2, [&](auto context) {
    std::vector<int> data(1);
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 0) {
      buffer->send(1, kSlot, 0, kRestOfBuffer);
      std::thread aborter([&] { buffer->abortWaitSend(); });
      EXPECT_FALSE(buffer->waitSend(nullptr, kUnsetTimeout));
      aborter.join();
      aborted();
      EXPECT_TRUE(buffer->waitSend(nullptr, kUnsetTimeout));
    } else {
      aborted();
      buffer->recv(0, kSlot, 0, kRestOfBuffer);
      EXPECT_TRUE(buffer->waitRecv(nullptr, kUnsetTimeout));
    }
  });
}

TEST(Rendezvous, ASenderIsToldThatTheReceiverHasLeft) {
  on_ranks(2, [](auto context) {
    std::vector<int> data(1);
    const auto buffer = buffer_of(*context, data);
    if (context->rank == 1) return;
    buffer->send(1, kSlot, 0, kRestOfBuffer);
    EXPECT_THAT([&] { buffer->waitSend(nullptr, kUnsetTimeout); },
                ThrowsMessage<::gloo::IoException>(AllOf(HasSubstr("send to rank 1"), HasSubstr("left"))));
  });
}

}  // namespace
}  // namespace floe::gloo_transport
