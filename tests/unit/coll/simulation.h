// Runs the schedules of all ranks in one process. Steps run in a random order that their dependencies allow,
// so a missing dependency shows as a wrong result.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "engine/schedule.h"

namespace floe {

using Element = int64_t;  // sums are exact in any order
using Data = std::vector<Element>;

// One rank's buffers. In place: kSend and kRecv are the same memory.
struct RankState {
  Schedule schedule;
  Data send, recv, scratch;
  bool in_place = false;
  std::optional<uint64_t> factors_at;  // in scratch; rank r's is 1000 + r
  std::vector<bool> ended;

  bool has_ended() const { return std::find(ended.begin(), ended.end(), false) == ended.end(); }

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
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      RankState& r = ranks_[rank];
      r.scratch.resize(r.schedule.scratch_bytes() / sizeof(Element), -1);
      const auto& steps = r.schedule.steps();
      r.ended.resize(steps.size());
      missing_.emplace_back(steps.size());
      then_.emplace_back(steps.size());
      for (StepId id = 0; id < steps.size(); ++id) {
        missing_[rank][id] = steps[id].needs.size();
        for (const StepId need : steps[id].needs) then_[rank][need].push_back(id);
        if (steps[id].needs.empty()) pending_.emplace_back(rank, id);
      }
    }
  }

  // False if it gets stuck: a deadlock of the schedule.
  bool run() {
    while (!pending_.empty()) {
      const size_t start = random_() % pending_.size();
      size_t i = 0;
      while (i < pending_.size() && !can_run(pending_[(start + i) % pending_.size()])) ++i;
      if (i == pending_.size()) return false;
      auto& chosen = pending_[(start + i) % pending_.size()];
      const auto [rank, id] = chosen;
      chosen = pending_.back();
      pending_.pop_back();
      run_step(rank, id);
      spoil_what_it_alone_reads(rank, id);
      for (const StepId next : then_[rank][id])
        if (--missing_[rank][next] == 0) pending_.emplace_back(rank, next);
    }
    return wire_.empty() &&
           std::all_of(ranks_.begin(), ranks_.end(), [](const RankState& r) { return r.has_ended(); });
  }

  RankState& rank(uint32_t r) { return ranks_[r]; }

 private:
  using Channel = std::tuple<uint32_t, uint32_t, uint16_t>;  // from, to, tag

  bool can_run(std::pair<uint32_t, StepId> which) {
    const auto [rank, id] = which;
    const Step& step = ranks_[rank].schedule.steps()[id];
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

  // A receive's only reader may have had it from the packet.
  void spoil_what_it_alone_reads(uint32_t rank, StepId id) {
    const auto& steps = ranks_[rank].schedule.steps();
    for (const StepId need : steps[id].needs) {
      if (steps[need].kind != Step::Kind::kReceive || steps[need].reader != id) continue;
      const auto place = ranks_[rank].at(steps[need].range);
      std::fill(place.begin(), place.end(), -1);
    }
    if (const StepId reader = steps[id].reader; reader != 0) {
      const auto& needs = steps.at(reader).needs;
      EXPECT_NE(std::find(needs.begin(), needs.end(), id), needs.end());
    }
  }

  std::vector<RankState> ranks_;
  std::vector<std::pair<uint32_t, StepId>> pending_;    // whose needs have ended
  std::vector<std::vector<size_t>> missing_;            // by rank and step: needs that have not
  std::vector<std::vector<std::vector<StepId>>> then_;  // by rank and step: who needs it
  std::map<Channel, Data> wire_;
  std::mt19937 random_;
};

inline Element value(uint32_t rank, uint64_t i) {
  return static_cast<Element>((rank + 1) * 1000003 + i * 7919);
}

inline Data input(uint32_t rank, uint64_t count) {
  Data data(count);
  for (uint64_t i = 0; i < count; ++i) data[i] = value(rank, i);
  return data;
}

inline Data sum_of_inputs(uint32_t ranks, uint64_t count) {
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

}  // namespace floe
