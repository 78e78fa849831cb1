#include "engine/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace floe {
namespace {

using testing::HasSubstr;

struct Plain final : Operation {
  using Operation::Operation;
  bool waits_for(uint32_t) const override { return false; }
};

TEST(Descriptor, EveryFieldChangesTheHash) {
  const Descriptor base{2, FLOE_SUM, FLOE_FLOAT32, 1, 0, 1000};
  std::set<uint32_t> seen;
  for (int kind = 2; kind < 8; ++kind)
    for (int op = 0; op < 5; ++op)
      for (int type = 0; type < 12; ++type)
        for (uint32_t root = 0; root < 4; ++root)
          for (const uint64_t count : {base.count, base.count + 1, base.count << 32}) {
            const Descriptor d{static_cast<uint8_t>(kind),
                               static_cast<uint8_t>(op),
                               static_cast<uint8_t>(type),
                               1,
                               root,
                               count};
            seen.insert(hash(d) & 0xffffff);
          }
  EXPECT_GE(seen.size(), 6u * 5 * 12 * 4 * 3 - 3) << "24 bits tell nearly all of them apart";
}

TEST(Descriptor, IsDescribedInWords) {
  EXPECT_EQ(describe({2, FLOE_SUM, FLOE_BFLOAT16, 1, 0, 1048576}), "all_reduce (bfloat16 x 1048576, sum)");
  EXPECT_EQ(describe({4, 0, FLOE_INT8, 1, 3, 7}), "broadcast (int8 x 7, root 3)");
  EXPECT_EQ(describe({12, 0, FLOE_FLOAT32, 1, 2, 9}), "gather (float32 x 9, root 2)");
  EXPECT_EQ(describe({13, 0, FLOE_FLOAT32, 1, 2, 0}), "gather_v (float32, root 2)");
  EXPECT_EQ(describe({11, 0, FLOE_INT16, 1, 0, 0}), "all_to_all_v (int16)");
  EXPECT_EQ(describe({9, FLOE_MAX, FLOE_INT16, 1, 0xabc, 70}),
            "reduce_scatter_v (int16 x 70 in all, counts with digest 0x00000abc, max)");
  EXPECT_THAT(describe({200, 0, 99, 1, 0, 0}), HasSubstr("unknown"));
}

TEST(Descriptor, OfTwoRanksThatDisagreeAboutABlockNamesBothSides) {
  const Status status = size_mismatch({11, 0, FLOE_INT16, 1, 0, 0}, 3, 20, 5, 22);
  EXPECT_EQ(status.code(), FLOE_ERR_MISMATCH);
  EXPECT_THAT(status.message(), HasSubstr("rank 3 sends 10 elements to rank 5, which expects 11"));
}

TEST(Operation, CallsBackOnceWheneverTheCallbackIsSet) {
  const auto count = [](void* user, floe_status_t status, const char* message) {
    EXPECT_EQ(status, FLOE_ERR_PEER);
    EXPECT_STREQ(message, "gone");
    ++*static_cast<int*>(user);
  };
  int calls = 0;
  Plain before(Descriptor{}), after(Descriptor{});
  EXPECT_TRUE(before.set_callback(count, &calls));
  EXPECT_FALSE(before.set_callback(count, &calls));
  before.finish({FLOE_ERR_PEER, "gone"});
  EXPECT_EQ(calls, 1);
  after.finish({FLOE_ERR_PEER, "gone"});
  EXPECT_TRUE(after.set_callback(count, &calls));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace floe
