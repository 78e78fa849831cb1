// float32 that travels as bfloat16, by the engine's own sums and conversions: the same bits on all ranks,
// within the bound of coll/algorithms.h, which is in turn nearly reached.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <tuple>

#include "coll/algorithms.h"
#include "engine/local_step.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

using Values = std::vector<float>;
using Message = std::vector<std::byte>;

struct NarrowRank {
  Schedule schedule;
  Values send, recv;
  Message scratch;
  bool in_place = false;
  std::vector<bool> ended;

  Buffers buffers() {
    auto* const to = reinterpret_cast<std::byte*>(recv.data());
    return {in_place ? to : reinterpret_cast<std::byte*>(send.data()), to, scratch.data()};
  }
};

// Runs all ranks' schedules, a step at a time in a random order that their needs allow. False: a deadlock.
class NarrowSimulation {
 public:
  NarrowSimulation(std::vector<NarrowRank> ranks, int op) : ranks_(std::move(ranks)), op_(op) {
    for (NarrowRank& r : ranks_) {
      r.scratch.resize(r.schedule.scratch_bytes());
      r.ended.resize(r.schedule.steps().size());
    }
  }

  bool run() {
    std::deque<std::pair<uint32_t, StepId>> waiting;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      for (StepId id = 0; id < ranks_[rank].ended.size(); ++id) waiting.emplace_back(rank, id);
    std::shuffle(waiting.begin(), waiting.end(), random_);
    size_t stuck = 0;
    while (!waiting.empty() && stuck < waiting.size()) {
      const auto [rank, id] = waiting.front();
      waiting.pop_front();
      if (run_step(rank, id)) {
        stuck = 0;
        continue;
      }
      waiting.emplace_back(rank, id);
      ++stuck;
    }
    return waiting.empty() && wire_.empty();
  }

  const Values& result(uint32_t rank) const { return ranks_[rank].recv; }
  uint64_t sent() const { return sent_; }

 private:
  bool run_step(uint32_t rank, StepId id) {
    NarrowRank& me = ranks_[rank];
    const Step& step = me.schedule.steps()[id];
    for (const StepId need : step.needs)
      if (!me.ended[need]) return false;
    std::byte* const data = at(me.buffers(), step.range);
    if (step.kind == Step::Kind::kSend) {
      EXPECT_TRUE(wire_.emplace(std::tuple(rank, step.peer, step.tag), Message(data, data + step.range.bytes))
                      .second);
      sent_ += step.range.bytes;
    } else if (step.kind == Step::Kind::kReceive) {
      const auto message = wire_.extract({step.peer, rank, step.tag});
      if (message.empty()) return false;
      EXPECT_EQ(step.range.bytes, message.mapped().size());
      std::copy(message.mapped().begin(), message.mapped().end(), data);
    } else {
      run_local(step, me.buffers(), {FLOE_FLOAT32, op_, static_cast<uint32_t>(ranks_.size()), {}});
      for (const StepId need : step.needs)  // it may have had these from the packets
        if (const Step& receive = me.schedule.steps()[need]; receive.reader == id)
          std::fill_n(at(me.buffers(), receive.range), receive.range.bytes, std::byte{0xff});
    }
    me.ended[id] = true;
    return true;
  }

  std::vector<NarrowRank> ranks_;
  int op_;
  std::map<std::tuple<uint32_t, uint32_t, uint16_t>, Message> wire_;
  std::mt19937 random_{7};
  uint64_t sent_ = 0;
};

Values inputs(uint32_t rank, uint64_t count) {
  std::mt19937 random(rank + 1);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Case {
  uint32_t ranks;
  uint64_t count;
  uint32_t per_host = 1;
  bool in_place = false;
  int op = FLOE_SUM;
};

// Returns the largest error as a share of A; what was sent into *sent.
double run(const Case& c, uint64_t* sent = nullptr) {
  std::vector<NarrowRank> ranks(c.ranks);
  for (uint32_t rank = 0; rank < c.ranks; ++rank) {
    std::vector<bool> apart(c.ranks);
    for (uint32_t peer = 0; peer < c.ranks; ++peer) apart[peer] = peer / c.per_host != rank / c.per_host;
    ranks[rank].schedule = narrow_all_reduce(c.ranks, rank, {c.count, sizeof(float)}, apart);
    ranks[rank].in_place = c.in_place;
    (c.in_place ? ranks[rank].recv : ranks[rank].send) = inputs(rank, c.count);
    if (!c.in_place) ranks[rank].recv.resize(c.count, NAN);
  }
  NarrowSimulation simulation(std::move(ranks), c.op);
  EXPECT_TRUE(simulation.run()) << "a deadlock, or a message that nobody took";
  if (sent) *sent = simulation.sent();

  const Values& result = simulation.result(0);
  for (uint32_t rank = 1; rank < c.ranks; ++rank)
    EXPECT_EQ(0, std::memcmp(result.data(), simulation.result(rank).data(), c.count * sizeof(float))) << rank;
  std::vector<double> sum(c.count), size(c.count);
  for (uint32_t rank = 0; rank < c.ranks; ++rank) {
    const Values values = inputs(rank, c.count);
    for (uint64_t i = 0; i < c.count; ++i) {
      const double scale = c.op == FLOE_AVG ? c.ranks : 1;
      sum[i] += values[i] / scale;
      size[i] += std::fabs(values[i]) / scale;
    }
  }
  double worst = 0;
  for (uint64_t i = 0; i < c.count; ++i) {
    const double error = std::fabs(result[i] - sum[i]);
    EXPECT_LE(error, std::ldexp(std::fabs(sum[i]) + 1.01 * size[i], -8)) << "element " << i;
    worst = std::max(worst, error / size[i]);
  }
  return worst;
}

class NarrowAllReduceOf : public testing::TestWithParam<uint32_t> {};

TEST_P(NarrowAllReduceOf, KeepsToTheBound) {
  const uint32_t ranks = GetParam();
  for (const uint64_t count : {1u, 7u, 63u, 65u, 1003u}) {
    SCOPED_TRACE(count);
    run({ranks, count});
    run({.ranks = ranks, .count = count, .in_place = true});
    run({.ranks = ranks, .count = count, .per_host = 3, .in_place = count % 2 == 0, .op = FLOE_AVG});
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, NarrowAllReduceOf, testing::Values(1, 2, 3, 4, 5, 7, 8, 13, 16, 33, 64));

// More chunks than may be under way: slots are used again.
TEST(NarrowAllReduce, TakesTurnsWithItsSlots) {
  for (const uint32_t per_host : {1u, 2u})
    for (const bool in_place : {false, true})
      run({.ranks = 3, .count = 3'000'017, .per_host = per_host, .in_place = in_place});
  const std::vector<bool> apart = {false, true, true};
  const Schedule schedule = narrow_all_reduce(3, 0, {uint64_t{1} << 32, 4}, apart);
  EXPECT_LT(schedule.scratch_bytes(), uint64_t{200} << 20) << "of 16 GiB";
  for (const Step& step : schedule.steps()) EXPECT_LT(step.tag, 0xFFFF);
}

TEST(NarrowAllReduce, TheBoundIsNoHigherThanItMustBe) {
  const double worst = run({2, 500'000});
  EXPECT_GT(worst, std::ldexp(1.2, -8));
  EXPECT_LT(worst, 1.0 / 127);
}

TEST(NarrowAllReduce, HalvesWhatTravels) {
  uint64_t apart = 0, together = 0;
  run({.ranks = 4, .count = 64'000}, &apart);
  run({.ranks = 4, .count = 64'000, .per_host = 4}, &together);
  EXPECT_EQ(2 * apart, together);
}

// Sums on their way around are not divided yet; all ranks get the bits of the part's owner.
TEST(RingAllReduce, AveragesDivideOnce) {
  constexpr uint64_t kCount = 100'003;
  for (const uint32_t ranks : {2u, 3u, 8u}) {
    std::vector<NarrowRank> states(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      states[rank].schedule = ring_all_reduce(ranks, rank, {kCount, sizeof(float)});
      states[rank].recv = inputs(rank, kCount);
      states[rank].in_place = true;
    }
    NarrowSimulation simulation(std::move(states), FLOE_AVG);
    ASSERT_TRUE(simulation.run());
    std::vector<double> average(kCount);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Values values = inputs(rank, kCount);
      for (uint64_t i = 0; i < kCount; ++i) average[i] += double{values[i]} / ranks;
      EXPECT_EQ(simulation.result(0), simulation.result(rank)) << rank;
    }
    for (uint64_t i = 0; i < kCount; ++i) ASSERT_NEAR(simulation.result(0)[i], average[i], 1e-6 * ranks) << i;
  }
}

}  // namespace
}  // namespace floe
