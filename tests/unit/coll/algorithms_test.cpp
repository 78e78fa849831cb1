// Every algorithm as a schedule, run in one process for many rank counts and awkward sizes. Steps run in a
// random order that their dependencies allow, so a missing dependency shows as a wrong result.
#include "coll/algorithms.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>

namespace floe {
namespace {

using Element = int64_t;  // sums are exact in any order
using Data = std::vector<Element>;

// One rank's buffers. In place: kSend and kRecv are the same memory.
struct RankState {
  Schedule schedule;
  Data send, recv, scratch;
  bool in_place = false;
  std::optional<uint64_t> factors_at;  // in scratch; rank r's is 1000 + r
  std::vector<bool> ended;

  std::span<Element> at(const Range& range) {
    Data& data = range.buffer == Buffer::kScratch             ? scratch
                 : range.buffer == Buffer::kSend && !in_place ? send
                                                              : recv;
    EXPECT_LE(range.offset + range.bytes, data.size() * sizeof(Element));
    return {data.data() + range.offset / sizeof(Element), range.bytes / sizeof(Element)};
  }
};

class Simulation {
 public:
  Simulation(std::vector<RankState> ranks, uint32_t seed) : ranks_(std::move(ranks)), random_(seed) {
    for (RankState& r : ranks_) {
      r.scratch.resize(r.schedule.scratch_bytes() / sizeof(Element), -1);
      r.ended.resize(r.schedule.steps().size());
    }
  }

  // False if it gets stuck: a deadlock of the schedule.
  bool run() {
    std::vector<std::pair<uint32_t, StepId>> pending;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      for (StepId id = 0; id < ranks_[rank].ended.size(); ++id) pending.emplace_back(rank, id);
    while (!pending.empty()) {
      const size_t start = random_() % pending.size();
      size_t i = 0;
      while (i < pending.size() && !can_run(pending[(start + i) % pending.size()])) ++i;
      if (i == pending.size()) return false;
      auto& chosen = pending[(start + i) % pending.size()];
      run_step(chosen.first, chosen.second);
      chosen = pending.back();
      pending.pop_back();
    }
    return wire_.empty();
  }

  RankState& rank(uint32_t r) { return ranks_[r]; }

 private:
  using Channel = std::tuple<uint32_t, uint32_t, uint16_t>;  // from, to, tag

  bool can_run(std::pair<uint32_t, StepId> which) {
    const auto [rank, id] = which;
    const Step& step = ranks_[rank].schedule.steps()[id];
    for (const StepId need : step.needs)
      if (!ranks_[rank].ended[need]) return false;
    return step.kind != Step::Kind::kReceive || wire_.contains({step.peer, rank, step.tag});
  }

  void run_step(uint32_t rank, StepId id) {
    RankState& me = ranks_[rank];
    const Step& step = me.schedule.steps()[id];
    const auto target = me.at(step.range);
    me.ended[id] = true;
    switch (step.kind) {
      case Step::Kind::kSend: {
        const bool fresh =
            wire_.emplace(Channel{rank, step.peer, step.tag}, Data(target.begin(), target.end())).second;
        EXPECT_TRUE(fresh) << "two messages with one tag";
        break;
      }
      case Step::Kind::kReceive: {
        const auto message = wire_.extract({step.peer, rank, step.tag});
        ASSERT_EQ(message.mapped().size(), target.size());
        std::copy(message.mapped().begin(), message.mapped().end(), target.begin());
        break;
      }
      case Step::Kind::kReduce: {
        Data sum(target.size());
        for (uint32_t r = 0; me.factors_at && r < ranks_.size(); ++r)
          EXPECT_EQ(me.scratch[*me.factors_at + r], 1000 + r) << "a sum before the factors";
        for (const Range& source : step.sources) {
          const auto values = me.at(source);
          ASSERT_EQ(values.size(), sum.size());
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
        }
        std::copy(sum.begin(), sum.end(), target.begin());
        break;
      }
      case Step::Kind::kCopy: {
        const auto from = me.at(step.sources.at(0));
        ASSERT_EQ(from.size(), target.size());
        std::copy(from.begin(), from.end(), target.begin());
        break;
      }
    }
  }

  std::vector<RankState> ranks_;
  std::map<Channel, Data> wire_;
  std::mt19937 random_;
};

Element value(uint32_t rank, uint64_t i) { return static_cast<Element>((rank + 1) * 1000003 + i * 7919); }

Data input(uint32_t rank, uint64_t count) {
  Data data(count);
  for (uint64_t i = 0; i < count; ++i) data[i] = value(rank, i);
  return data;
}

Data sum_of_inputs(uint32_t ranks, uint64_t count) {
  Data sum(count);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (uint64_t i = 0; i < count; ++i) sum[i] += value(rank, i);
  return sum;
}

constexpr uint32_t kRanks[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 33, 64};
constexpr uint64_t kCounts[] = {0, 1, 7, 8, 9, 64, 1000};

template <class F>
void for_each_case(F&& f) {
  for (const uint32_t ranks : kRanks)
    for (const uint64_t count : kCounts) {
      if (ranks > 16 && count > 9) continue;  // keeps the whole test in seconds
      SCOPED_TRACE(testing::Message() << ranks << " ranks, count " << count);
      f(ranks, count);
      if (testing::Test::HasFailure()) return;
    }
}

using Make = Schedule (*)(uint32_t ranks, uint32_t rank, Elements data);

void check_all_reduce(Make make) {
  for (const bool in_place : {false, true})
    for_each_case([&](uint32_t ranks, uint64_t count) {
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
    });
}

TEST(Algorithms, ExchangeAllReduceSums) { check_all_reduce(exchange_all_reduce); }
TEST(Algorithms, DirectAllReduceSums) { check_all_reduce(direct_all_reduce); }
TEST(Algorithms, SelectedAllReduceSums) { check_all_reduce(all_reduce); }

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
        s.schedule = all_gather(ranks, rank, {count, sizeof(Element)}, in_place);
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
      states[rank].schedule = reduce_scatter(ranks, rank, {count, sizeof(Element)});
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
