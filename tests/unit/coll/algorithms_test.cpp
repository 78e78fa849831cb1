// Every algorithm as a schedule, run in one process for many rank counts and awkward sizes.
#include "coll/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "simulation.h"

namespace floe {
namespace {

using Make = Schedule (*)(uint32_t ranks, uint32_t rank, Elements data);

void check_all_reduce_of(Make make, uint32_t ranks, uint64_t count, bool in_place) {
  std::vector<RankState> states(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    states[rank].schedule = make(ranks, rank, {count, sizeof(Element)});
    states[rank].in_place = in_place;
    (in_place ? states[rank].recv : states[rank].send) = input(rank, count);
    if (!in_place) states[rank].recv.resize(count, -2);
  }
  Simulation simulation(std::move(states), ranks);
  ASSERT_TRUE(simulation.run());
  for (uint32_t rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(simulation.rank(rank).recv, sum_of_inputs(ranks, count)) << "rank " << rank;
}

void check_all_reduce(Make make) {
  for (const bool in_place : {false, true})
    for_each_case([&](uint32_t ranks, uint64_t count) { check_all_reduce_of(make, ranks, count, in_place); });
}

TEST(Algorithms, ExchangeAllReduceSums) { check_all_reduce(exchange_all_reduce); }
TEST(Algorithms, DirectAllReduceSums) { check_all_reduce(direct_all_reduce); }
TEST(Algorithms, RingAllReduceSums) { check_all_reduce(ring_all_reduce); }
TEST(Algorithms, SelectedAllReduceSums) {
  check_all_reduce([](uint32_t n, uint32_t rank, Elements data) { return all_reduce(n, rank, data, false); });
  check_all_reduce([](uint32_t n, uint32_t rank, Elements data) { return all_reduce(n, rank, data, true); });
}

// More chunks than may be under way: slots are used again.
TEST(Algorithms, LargeAllReducesSumInChunks) {
  for (const Make make : {exchange_all_reduce, direct_all_reduce, ring_all_reduce})
    for (const uint32_t ranks : {2u, 3u, 5u})
      for (const bool in_place : {false, true}) check_all_reduce_of(make, ranks, 400'009, in_place);
}

// TCP cuts a larger one in two: see chunks.h.
TEST(Algorithms, ChunksOfLargeAllReducesAreOneFrame) {
  for (const Make make : {exchange_all_reduce, direct_all_reduce, ring_all_reduce}) {
    const Schedule schedule = make(2, 0, {uint64_t{25} << 18, 4});
    for (const Step& step : schedule.steps()) EXPECT_LE(step.range.bytes, uint64_t{60} << 10);
  }
}

// Tags of 16 bits, less the one of with_factors(), are enough for the largest; and scratch does not grow.
TEST(Algorithms, HugeAllReducesFit) {
  for (const Make make : {exchange_all_reduce, direct_all_reduce, ring_all_reduce})
    for (const uint32_t ranks : {2u, 64u}) {
      if (make == exchange_all_reduce && ranks != 2) continue;  // small messages
      const Schedule schedule = make(ranks, ranks - 1, {uint64_t{1} << 36, 4});
      EXPECT_LT(schedule.scratch_bytes(), uint64_t{8} << 30) << "of 256 GiB";
      std::set<std::tuple<bool, uint32_t, uint16_t>> seen;
      for (const Step& step : schedule.steps()) {
        if (step.kind != Step::Kind::kSend && step.kind != Step::Kind::kReceive) continue;
        EXPECT_LT(step.tag, 0xFFFF);
        EXPECT_TRUE(seen.emplace(step.kind == Step::Kind::kSend, step.peer, step.tag).second);
      }
    }
}

TEST(Algorithms, ReduceLeavesTheSumOnTheRoot) {
  for (const bool in_place : {false, true})
    for_each_case([&](uint32_t ranks, uint64_t count) {
      const uint32_t root = ranks / 2;
      std::vector<RankState> states(ranks);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        RankState& s = states[rank];
        s.schedule = reduce(ranks, rank, {count, sizeof(Element)}, root);
        s.in_place = in_place && rank == root;
        (s.in_place ? s.recv : s.send) = input(rank, count);
        if (rank == root) s.recv.resize(count);  // others have none: touching it fails
      }
      Simulation simulation(std::move(states), ranks);
      ASSERT_TRUE(simulation.run());
      EXPECT_EQ(simulation.rank(root).recv, sum_of_inputs(ranks, count));
    });
}

TEST(Algorithms, BroadcastReachesAllFromEveryRoot) {
  for_each_case([&](uint32_t ranks, uint64_t count) {
    for (const uint32_t root : {0u, ranks - 1, ranks / 3}) {
      std::vector<RankState> states(ranks);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        states[rank].schedule = broadcast(ranks, rank, {count, sizeof(Element)}, root);
        states[rank].recv = rank == root ? input(root, count) : Data(count, -2);
      }
      Simulation simulation(std::move(states), ranks);
      ASSERT_TRUE(simulation.run());
      for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(simulation.rank(rank).recv, input(root, count));
    }
  });
}

TEST(Algorithms, AllGatherPutsBlocksInRankOrder) {
  for (const bool in_place : {false, true})
    for_each_case([&](uint32_t ranks, uint64_t count) {
      Data wanted;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const Data block = input(rank, count);
        wanted.insert(wanted.end(), block.begin(), block.end());
      }
      std::vector<RankState> states(ranks);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        RankState& s = states[rank];
        s.schedule = all_gather(rank, equal_blocks(ranks, count * sizeof(Element)), in_place);
        s.send = in_place ? Data() : input(rank, count);
        s.recv.resize(count * ranks, -2);
        if (in_place) std::copy_n(wanted.begin() + rank * count, count, s.recv.begin() + rank * count);
      }
      Simulation simulation(std::move(states), ranks);
      ASSERT_TRUE(simulation.run());
      for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(simulation.rank(rank).recv, wanted);
    });
}

TEST(Algorithms, ReduceScatterLeavesEachRankItsBlock) {
  for_each_case([&](uint32_t ranks, uint64_t count) {
    std::vector<RankState> states(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      states[rank].schedule = reduce_scatter(rank, equal_blocks(ranks, count * sizeof(Element)));
      states[rank].send = input(rank, count * ranks);
      states[rank].recv.resize(count, -2);
    }
    Simulation simulation(std::move(states), ranks);
    ASSERT_TRUE(simulation.run());
    const Data sum = sum_of_inputs(ranks, count * ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(simulation.rank(rank).recv,
                Data(sum.begin() + rank * count, sum.begin() + (rank + 1) * count));
  });
}

// A barrier holds everybody back while one rank has not entered: no other rank can end.
// Every rank's factor is with every rank before it adds, and the reduction is what it was.
TEST(Algorithms, FactorsArriveBeforeAnyReduction) {
  for (const bool in_place : {false, true})
    for_each_case([&](uint32_t ranks, uint64_t count) {
      std::vector<RankState> states(ranks);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        auto made = with_factors(direct_all_reduce(ranks, rank, {count, sizeof(Element)}), ranks, rank);
        states[rank].schedule = std::move(made.schedule);
        states[rank].in_place = in_place;
        states[rank].factors_at = made.at / sizeof(Element);
        (in_place ? states[rank].recv : states[rank].send) = input(rank, count);
        if (!in_place) states[rank].recv.resize(count, -2);
      }
      Simulation simulation(std::move(states), ranks);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        RankState& me = simulation.rank(rank);
        me.scratch[*me.factors_at + rank] = 1000 + rank;
      }
      ASSERT_TRUE(simulation.run());
      for (uint32_t rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(simulation.rank(rank).recv, sum_of_inputs(ranks, count)) << "rank " << rank;
    });
}

TEST(Algorithms, BarrierNeedsEveryRank) {
  for (const uint32_t ranks : kRanks) {
    for (uint32_t late = 0; late < ranks; ++late) {
      std::vector<RankState> states(ranks);
      // Reached by a chain of messages from `late`?
      uint32_t rounds = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        states[rank].schedule = barrier(ranks, rank);
        rounds = std::max<uint32_t>(rounds, static_cast<uint32_t>(states[rank].schedule.steps().size()) / 2);
      }
      std::vector<bool> reached(ranks);
      reached[late] = true;
      for (uint32_t round = 0; round < rounds; ++round) {
        std::vector<bool> next = reached;
        for (uint32_t rank = 0; rank < ranks; ++rank)
          for (const Step& step : states[rank].schedule.steps())
            if (step.kind == Step::Kind::kSend && step.tag == round && reached[rank]) next[step.peer] = true;
        reached = next;
      }
      EXPECT_EQ(std::count(reached.begin(), reached.end(), true), ranks);
      if (late == 0) {
        EXPECT_TRUE(Simulation(std::move(states), ranks).run());
      }
    }
  }
}

TEST(Algorithms, PartsCoverEverythingOnce) {
  for (const uint64_t element : {1, 2, 4, 8})
    for (const uint32_t parts : kRanks)
      for (const uint64_t count : {0, 1, 63, 64, 65, 1000, 4097}) {
        uint64_t end = 0;
        for (uint32_t i = 0; i < parts; ++i) {
          const Range range = part(Buffer::kSend, {count, element}, parts, i);
          EXPECT_EQ(range.offset, end);
          end += range.bytes;
        }
        EXPECT_EQ(end, count * element);
      }
}

}  // namespace
}  // namespace floe
