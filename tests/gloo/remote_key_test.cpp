// One-sided access: the owner of the memory calls nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "errors.h"
#include "ranks.h"

namespace floe::gloo_transport {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ints = std::vector<int>;

TEST(RemoteKey, AllRanksGetFromAndPutToEachOther) {
  constexpr int kRanks = 3;
  for (const size_t part : {size_t{0}, size_t{1}, size_t{300'000}}) {
    std::vector<std::string> keys(kRanks);
    Meeting exposed(kRanks);
    on_ranks(kRanks, [&](auto context) {
      const int rank = context->rank;
      const size_t bytes = part * sizeof(int);
      // One part for each rank to put its number to; the rank's own is for all to get.
      Ints shared(kRanks * part, -1), local(part, rank), got(part, -1);
      std::fill_n(shared.begin() + rank * part, part, 100 + rank);
      const auto memory = buffer_of(*context, shared), from = buffer_of(*context, local),
                 to = buffer_of(*context, got);
      keys[rank] = memory->getRemoteKey()->serialize();
      exposed();
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        const auto key = context->deserializeRemoteKey(keys[peer]);
        EXPECT_EQ(key->rank, peer);
        EXPECT_EQ(key->size, kRanks * bytes);
        to->get(*key, 0, 0, peer * bytes, bytes);
        EXPECT_TRUE(to->waitSend(nullptr, abi::kUnsetTimeout));
        EXPECT_THAT(got, Each(100 + peer));
        context->getPair(peer)->put(from.get(), *key, 0, 0, rank * bytes, bytes);
        int whom = -1;
        EXPECT_TRUE(from->waitSend(&whom, abi::kUnsetTimeout));
        EXPECT_EQ(whom, peer);
      }
      exposed();  // a put that has completed is in the other rank's memory
      for (size_t i = 0; i < shared.size(); ++i) {
        const int writer = static_cast<int>(i / part);
        ASSERT_EQ(shared[i], writer == rank ? 100 + rank : writer) << i;
      }
    });
  }
}

TEST(RemoteKey, BoundsAreCheckedBeforeAnythingIsSent) {
  std::vector<std::string> keys(2);
  Meeting exposed(2);
  on_ranks(2, [&](auto context) {
    using Invalid = ::gloo::InvalidOperationException;
    Ints shared(4), local(8);
    const auto memory = buffer_of(*context, shared), buffer = buffer_of(*context, local);
    keys[context->rank] = memory->getRemoteKey()->serialize();
    exposed();
    const auto own = context->deserializeRemoteKey(keys[context->rank]);
    const auto key = context->deserializeRemoteKey(keys[1 - context->rank]);
    EXPECT_THROW(buffer->get(*own, 0, 0, 0, 4), Invalid);
    EXPECT_THROW(buffer->get(*key, 0, 1'000'000, 0, 1), Invalid);
    EXPECT_THROW(buffer->get(*key, 0, 0, 1'000'000, 1), Invalid);
    EXPECT_THROW(buffer->get(*key, 0, 0, 0, 20), Invalid);
    EXPECT_THROW(buffer->put(*key, 0, 0, 12, 8), Invalid);
    EXPECT_THROW(buffer->put(*key, 0, 0, SIZE_MAX - 3, 8), Invalid);
    EXPECT_THROW(context->deserializeRemoteKey("floe 7 16 1"), Invalid);
    EXPECT_THROW(context->deserializeRemoteKey("floe 1 16"), Invalid);
    EXPECT_THROW(context->deserializeRemoteKey(keys[0] + 'x'), Invalid);
    EXPECT_THROW(context->deserializeRemoteKey(""), Invalid);
    buffer->get(*key, 0, 0, 0, 16);
    EXPECT_TRUE(buffer->waitSend(nullptr, abi::kUnsetTimeout));
    exposed();
  });
}

TEST(RemoteKey, OfABufferThatIsNoMoreEndsTheContext) {
  std::string text;
  Meeting exposed(2);
  on_ranks(2, [&](auto context) {
    Ints data(4);
    auto buffer = buffer_of(*context, data);
    if (context->rank == 1) {
      text = buffer->getRemoteKey()->serialize();
      buffer.reset();
    }
    exposed();
    if (context->rank == 0) {
      buffer->get(*context->deserializeRemoteKey(text), 0, 0, 0, 4);
      EXPECT_THROW(buffer->waitSend(nullptr, abi::kUnsetTimeout), ::gloo::IoException);
    }
    exposed();
  });
}

}  // namespace
}  // namespace floe::gloo_transport
