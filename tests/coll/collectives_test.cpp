// Every collective against the oracle: types, operations, sizes, buffers, rank counts.
#include <atomic>
#include <utility>

#include "exercise.h"

namespace floe::test {
namespace {

class Collectives : public testing::TestWithParam<uint32_t> {
 protected:
  uint32_t ranks() const { return GetParam(); }
};

TEST_P(Collectives, EveryTypeAndOperationGivesTheOraclesResult) {
  run_ranks(ranks(), [](Rank& r) {
    uint64_t seed = 1;
    for (const auto type : all_types())
      for (const auto op : all_ops())
        for (const auto collective : all_collectives())
          for (const uint64_t count : {1, 37, 1000}) {
            if (!reduces(collective) && op != FLOE_SUM) continue;
            if (!supported(type, op)) continue;
            const auto root = static_cast<uint32_t>(seed % r.size);
            Exercise(r, {.collective = collective, .type = type, .op = op, .count = count, .root = root},
                     seed)
                .run();
            ++seed;
          }
  });
}

// Bytes around where a protocol might change: a cache line, a page, a slot, a chunk, and several chunks.
std::vector<uint64_t> edges(uint32_t ranks) {
  std::vector<uint64_t> bytes = {0};
  for (const uint64_t edge : {64, 512, 1024, 4096, 8192, 65536, 262144, 524288, 1048576}) {
    if (ranks > 4 && edge > 300'000) continue;
    bytes.insert(bytes.end(), {edge - 8, edge, edge + 8});
  }
  if (!kSanitized) bytes.insert(bytes.end(), {(2 << 20) + 24, (5 << 20) - 8});
  return bytes;
}

TEST_P(Collectives, SizesAroundTheEdgesOfEveryProtocol) {
  run_ranks(ranks(), [](Rank& r) {
    uint64_t seed = 1, sizes = 0;
    for (const uint64_t bytes : edges(r.size)) {
      uint64_t turn = ++sizes;
      for (const auto collective : all_collectives()) {
        ++turn;
        for (const bool in_place : {false, true}) {
          // Types and misalignments take turns, as in place or not does on more ranks: their combinations
          // with sizes are many.
          if (r.size > 2 && in_place != (turn % 2 == 0)) continue;
          const floe_type_t types[] = {FLOE_FLOAT32, FLOE_BFLOAT16, FLOE_UINT8, FLOE_FLOAT64};
          const floe_type_t type = types[seed % 4];
          const size_t misalign = seed % 3 == 0 ? seed % 64 : 0;
          const auto root = static_cast<uint32_t>(seed % r.size);
          // Gathered and scattered operations take the bytes of the whole.
          const bool parts = collective == Collective::kAllGather || collective == Collective::kReduceScatter;
          const uint64_t count = bytes / element_size(type) / (parts && seed % 2 ? r.size : 1);
          Exercise(r, {collective, type, FLOE_SUM, count, root, in_place, misalign}, seed).run();
          ++seed;
        }
      }
    }
  });
}

// An odd number of elements leaves ranks with blocks of different sizes, some of them empty.
TEST_P(Collectives, CountsThatRanksDoNotDivide) {
  run_ranks(ranks(), [](Rank& r) {
    uint64_t seed = 1;
    for (const auto collective : all_collectives())
      for (const uint64_t count : {2u, 3u, 5u, 7u, r.size - 1, r.size + 1, 3 * r.size + 1, 4099u, 20011u})
        for (const auto type : {FLOE_INT8, FLOE_BFLOAT16, FLOE_FLOAT32}) {
          Exercise(r, {collective, type, FLOE_SUM, count, r.size - 1, seed % 2 == 0, seed % 5}, seed).run();
          ++seed;
        }
  });
}

TEST_P(Collectives, EveryRankCanBeTheRoot) {
  run_ranks(ranks(), [](Rank& r) {
    uint64_t seed = 1;
    for (uint32_t root = 0; root < r.size; ++root)
      for (const auto collective : {Collective::kBroadcast, Collective::kReduce})
        for (const uint64_t count : {3, 5000, 100'000}) {
          Exercise(r, {collective, FLOE_INT32, FLOE_SUM, count, root, seed % 2 == 0}, seed).run();
          ++seed;
        }
  });
}

// Ranks must neither wait for ever nor overtake each other when nothing slows them down.
TEST_P(Collectives, ManySmallOnesBackToBack) {
  run_ranks(ranks(), [](Rank& r) {
    const uint64_t rounds = kSanitized ? 300 : 3000;
    for (uint64_t i = 0; i < rounds; ++i) {
      int64_t value = static_cast<int64_t>(i * (r.rank + 1));
      ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, &value, 1, FLOE_INT64, FLOE_SUM, nullptr));
      ASSERT_EQ(static_cast<int64_t>(i * r.size * (r.size + 1) / 2), value) << "call " << i;
    }
  });
}

// A barrier that lets a rank through before the last one has come is none.
TEST_P(Collectives, BarrierWaitsForEveryRank) {
  std::atomic<uint32_t> arrived{0};
  run_ranks(ranks(), [&](Rank& r) {
    for (uint32_t round = 1; round <= 200; ++round) {
      arrived.fetch_add(1);
      ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
      ASSERT_GE(arrived.load(), round * r.size);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

TEST(ManyRanks, SixteenOnFewCores) {
  run_ranks(16, [](Rank& r) {
    uint64_t seed = 1;
    for (const auto collective : all_collectives())
      for (const uint64_t count : {1, 999, 50'000})
        Exercise(r, {collective, FLOE_BFLOAT16, FLOE_SUM, count, r.size / 2, seed % 2 == 0}, seed).run(),
            ++seed;
  });
}

// Counts around the number of ranks leave some of them without a part.
void small_ones(Rank& r) {
  uint64_t seed = 1;
  for (const auto collective : all_collectives())
    for (const uint64_t count : {uint64_t{1}, uint64_t{r.size + 1}, uint64_t{300}})
      for (const auto& [type, op] : {std::pair(FLOE_FLOAT32, FLOE_SUM), std::pair(FLOE_BFLOAT16, kPremulSum),
                                     std::pair(FLOE_INT8, FLOE_MAX)}) {
        const auto root = static_cast<uint32_t>(seed * 5 % r.size);
        const floe_op_t used = reduces(collective) ? op : FLOE_SUM;
        Exercise(r, {collective, type, used, count, root, seed % 2 == 0, seed % 3}, seed).run();
        ++seed;
      }
}

TEST(ManyRanks, ThirtyThreeOnFewCores) { run_ranks(33, small_ones); }
TEST(ManyRanks, SixtyFourOnFewCores) { run_ranks(64, small_ones); }

TEST(Communicators, OfOneContextDoNotMix) {
  MemoryStore store;
  run_ranks(3, [&](Rank& r) {
    Rank other = r;
    other.comm = create_comm(r.context, r.rank, r.size, "other", store);
    ASSERT_NE(nullptr, other.comm);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Exercise(r, {.type = FLOE_INT32, .count = seed * 300}, seed).run();
      Exercise(other, {.type = FLOE_FLOAT32, .count = seed * 7}, seed).run();
    }
    EXPECT_FLOE_OK(floe_comm_destroy(other.comm));
  });
}

// The second one's ranks are in another order and a part of the first one's.
TEST(Communicators, OfSomeRanksInAnotherOrder) {
  MemoryStore store;
  run_ranks(4, [&](Rank& r) {
    if (r.rank == 1) return;
    const uint32_t place[] = {2, 9, 1, 0};
    Rank other{r.context, create_comm(r.context, place[r.rank], 3, "some", store), place[r.rank], 3};
    ASSERT_NE(nullptr, other.comm);
    for (const auto collective : all_collectives())
      Exercise(other, {.collective = collective, .type = FLOE_INT64, .count = 1234, .root = 1}, 5).run();
    EXPECT_FLOE_OK(floe_comm_destroy(other.comm));
  });
}

}  // namespace
}  // namespace floe::test
