// The collectives of blocks against the oracle: types, sizes, gaps, in and out of place, rank counts.
#include <algorithm>
#include <memory>
#include <vector>

#include "block_exercise.h"
#include "exercise.h"

namespace floe::test {
namespace {

class BlockCollectives : public testing::TestWithParam<uint32_t> {
 protected:
  uint32_t ranks() const { return GetParam(); }
};

TEST_P(BlockCollectives, EveryTypeGivesTheOraclesResult) {
  run_ranks(ranks(), [](Rank& r) {
    uint64_t seed = 1;
    for (const auto type : all_types())
      for (const auto collective : all_block_collectives())
        for (const bool in_place : {false, true})
          for (const bool gaps : {false, true}) {
            const auto root = static_cast<uint32_t>(seed % r.size);
            BlockExercise(r, {collective, type, FLOE_SUM, 37, root, in_place, gaps}, seed).run();
            ++seed;
          }
  });
}

// Blocks around where a message becomes long and where it becomes several packets; nothing at all among them.
TEST_P(BlockCollectives, SizesAroundTheEdgesOfTheMessages) {
  run_ranks(ranks(), [](Rank& r) {
    uint64_t seed = 1;
    for (const uint64_t bytes : {0, 8, 4096, 8192, 65536 - 64, 65536, 65536 + 8, 300'000})
      for (const auto collective : all_block_collectives())
        for (const bool in_place : {false, true}) {
          const floe_type_t types[] = {FLOE_FLOAT32, FLOE_BFLOAT16, FLOE_UINT8, FLOE_FLOAT64};
          const floe_type_t type = types[seed % 4];
          const auto root = static_cast<uint32_t>(seed / 2 % r.size);
          const bool gaps = seed % 3 == 0;
          BlockExercise(r, {collective, type, FLOE_SUM, bytes / element_size(type), root, in_place, gaps},
                        seed)
              .run();
          ++seed;
        }
  });
}

TEST_P(BlockCollectives, ReduceScatterWithEveryOperation) {
  run_ranks(ranks(), [](Rank& r) {
    uint64_t seed = 1;
    for (const auto type : {FLOE_FLOAT16, FLOE_BFLOAT16, FLOE_FLOAT32, FLOE_INT32})
      for (const auto op : all_ops()) {
        if (!supported(type, op)) continue;
        BlockExercise(r, {BlockCollective::kReduceScatterV, type, op, 1500, 0, seed % 2 == 0, seed % 3 == 0},
                      seed)
            .run();
        ++seed;
      }
  });
}

// Started by all ranks before anybody waits: each rank's sends must not need that another rank is ahead.
TEST_P(BlockCollectives, ManyUnderWayAtOnce) {
  run_ranks(ranks(), [](Rank& r) {
    std::vector<std::unique_ptr<BlockExercise>> calls;
    std::vector<Request> requests(16);
    for (uint64_t seed = 0; seed < requests.size(); ++seed) {
      const BlockShape shape{.collective = all_block_collectives()[seed % 8],
                             .largest = 40'000,
                             .in_place = seed % 3 == 0,
                             .gaps = seed % 2 == 0};
      calls.push_back(std::make_unique<BlockExercise>(r, shape, seed + 1));
      ASSERT_FLOE_OK(calls.back()->start(requests[seed].out())) << shape.text();
    }
    for (size_t i = calls.size(); i-- > 0;) {
      ASSERT_FLOE_OK(requests[i].wait());
      EXPECT_TRUE(calls[i]->check()) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, BlockCollectives, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

// More ranks than exchanges under way.
TEST(ManyRanks, SixteenExchangeBlocks) {
  run_ranks(16, [](Rank& r) {
    uint64_t seed = 1;
    for (const auto collective : all_block_collectives())
      for (const uint64_t largest : {9, 20'000}) {
        BlockExercise(r, {.collective = collective, .largest = largest, .root = 7, .in_place = seed % 2 == 0},
                      seed)
            .run();
        ++seed;
      }
  });
}

void small_blocks(Rank& r) {
  uint64_t seed = 1;
  for (const auto collective : all_block_collectives())
    for (const uint64_t largest : {1, 70}) {
      const auto root = static_cast<uint32_t>(seed * 5 % r.size);
      BlockExercise(r, {collective, FLOE_BFLOAT16, FLOE_SUM, largest, root, seed % 2 == 0, seed % 3 == 0},
                    seed)
          .run();
      ++seed;
    }
}

// On each of them two calls: collectives, types, operations and roots take turns.
TEST(ManyRanks, OfEveryNumberToSixtyFour) {
  for (uint32_t ranks = 9; ranks <= 64; ++ranks)
    run_ranks(ranks, [](Rank& r) {
      const uint64_t seed = r.size;
      const auto collective = all_collectives()[seed % all_collectives().size()];
      const auto of_blocks = all_block_collectives()[seed % all_block_collectives().size()];
      const floe_type_t type = all_types()[seed % all_types().size()];
      const floe_op_t any = all_ops()[seed / 3 % all_ops().size()];
      const floe_op_t op = reduces(collective) && supported(type, any) ? any : FLOE_SUM;
      const auto root = static_cast<uint32_t>(seed * 7 % r.size);
      Exercise(r, {collective, type, op, seed % 5 == 0 ? 4000 : r.size - 1, root, seed % 2 == 0}, seed).run();
      BlockExercise(r, {of_blocks, type, FLOE_SUM, 20, root, seed % 2 == 0, seed % 3 == 0}, seed).run();
    });
}

TEST(ManyRanks, ThirtyThreeExchangeBlocks) { run_ranks(33, small_blocks); }
TEST(ManyRanks, SixtyFourExchangeBlocks) { run_ranks(64, small_blocks); }

// All ranks' arrays may go as soon as the call has returned.
TEST(BlockArrays, AreNotKept) {
  run_ranks(3, [](Rank& r) {
    std::vector<int32_t> send(30, static_cast<int32_t>(r.rank)), recv(30, -1);
    Request request;
    {
      std::vector<uint64_t> counts(3, 10), offsets = {20, 10, 0};
      ASSERT_FLOE_OK(floe_all_to_all_v(r.comm, send.data(), counts.data(), nullptr, recv.data(),
                                       counts.data(), offsets.data(), FLOE_INT32, request.out()));
      std::fill(counts.begin(), counts.end(), UINT64_MAX);
      std::fill(offsets.begin(), offsets.end(), UINT64_MAX);
    }
    ASSERT_FLOE_OK(request.wait());
    for (int i = 0; i < 30; ++i) EXPECT_EQ(2 - i / 10, recv[static_cast<size_t>(i)]) << i;
  });
}

}  // namespace
}  // namespace floe::test
