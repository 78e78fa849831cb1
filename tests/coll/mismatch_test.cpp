// Ranks that call different things: an error on all of them that says who called what, never a wrong sum
// and never a wait for the deadline.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ranks.h"

namespace floe::test {
namespace {

using Call = std::function<floe_status_t(Rank&, void* data)>;

Call all_reduce(uint64_t count, floe_type_t type, floe_op_t op) {
  return [=](Rank& r, void* data) {
    return floe_all_reduce(r.comm, FLOE_IN_PLACE, data, count, type, op, nullptr);
  };
}
Call premul_sum(uint64_t count) {
  return [=](Rank& r, void* data) {
    const float factor = 0.5f * static_cast<float>(r.rank);
    floe_op_t op = FLOE_SUM;
    EXPECT_FLOE_OK(floe_op_create_premul_sum(r.comm, &factor, FLOE_FLOAT32, &op));
    return floe_all_reduce(r.comm, FLOE_IN_PLACE, data, count, FLOE_FLOAT32, op, nullptr);
  };
}
Call broadcast(uint64_t count, floe_type_t type, uint32_t root) {
  return [=](Rank& r, void* data) { return floe_broadcast(r.comm, data, count, type, root, nullptr); };
}
Call reduce(uint64_t count, uint32_t root) {
  return [=](Rank& r, void* data) {
    std::vector<float> input(count);
    return floe_reduce(r.comm, input.data(), data, count, FLOE_FLOAT32, FLOE_SUM, root, nullptr);
  };
}
Call all_gather(uint64_t count, floe_type_t type) {
  return [=](Rank& r, void* data) {
    std::vector<double> input(count);
    return floe_all_gather(r.comm, input.data(), data, count, type, nullptr);
  };
}
Call reduce_scatter(uint64_t count, floe_op_t op) {
  return [=](Rank& r, void* data) {
    std::vector<float> input(count * r.size);
    return floe_reduce_scatter(r.comm, input.data(), data, count, FLOE_FLOAT32, op, nullptr);
  };
}
Call all_to_all(uint64_t count, floe_type_t type) {
  return [=](Rank& r, void* data) {
    std::vector<double> input(count * r.size);
    return floe_all_to_all(r.comm, input.data(), data, count, type, nullptr);
  };
}
Call gather(uint64_t count, uint32_t root) {
  return [=](Rank& r, void* data) {
    std::vector<float> input(count);
    return floe_gather(r.comm, input.data(), data, count, FLOE_FLOAT32, root, nullptr);
  };
}
Call scatter(uint64_t count, uint32_t root) {
  return [=](Rank& r, void* data) {
    std::vector<float> input(count * r.size);
    return floe_scatter(r.comm, input.data(), data, count, FLOE_FLOAT32, root, nullptr);
  };
}

// v-forms: every block has `count` elements, but what this rank says of one of them.
std::vector<uint64_t> blocks(const Rank& r, uint64_t count, uint64_t first_has) {
  std::vector<uint64_t> counts(r.size, count);
  counts[0] = first_has;
  return counts;
}
Call all_gather_v(uint64_t count, uint64_t first_has) {
  return [=](Rank& r, void* data) {
    const auto counts = blocks(r, count, first_has);
    std::vector<float> input(counts[r.rank]);
    return floe_all_gather_v(r.comm, input.data(), data, counts.data(), nullptr, FLOE_FLOAT32, nullptr);
  };
}
Call reduce_scatter_v(uint64_t count, uint64_t first_has, floe_op_t op) {
  return [=](Rank& r, void* data) {
    const auto counts = blocks(r, count, first_has);
    std::vector<float> input(count * r.size + first_has);
    return floe_reduce_scatter_v(r.comm, input.data(), data, counts.data(), nullptr, FLOE_FLOAT32, op,
                                 nullptr);
  };
}
// Counts that only differ in their order.
Call all_gather_v_swapped(bool swapped) {
  return [=](Rank& r, void* data) {
    std::vector<uint64_t> counts(r.size, 5);
    counts[0] = swapped ? 4 : 6;
    counts[1] = swapped ? 6 : 4;
    std::vector<float> input(counts[r.rank]);
    return floe_all_gather_v(r.comm, input.data(), data, counts.data(), nullptr, FLOE_FLOAT32, nullptr);
  };
}
// What this rank sends to rank 0.
Call all_to_all_v(uint64_t count, uint64_t to_first) {
  return [=](Rank& r, void* data) {
    const auto to = blocks(r, count, to_first), from = blocks(r, count, count);
    std::vector<float> input(count * r.size + to_first);
    return floe_all_to_all_v(r.comm, input.data(), to.data(), nullptr, data, from.data(), nullptr,
                             FLOE_FLOAT32, nullptr);
  };
}
Call gather_v(uint64_t root_expects, uint64_t sends, uint32_t root = 0) {
  return [=](Rank& r, void* data) {
    const std::vector<uint64_t> counts(r.size, root_expects);
    std::vector<float> input(r.rank == root ? root_expects : sends);
    return floe_gather_v(r.comm, input.data(), input.size(), data, counts.data(), nullptr, FLOE_FLOAT32, root,
                         nullptr);
  };
}
Call scatter_v(uint64_t root_sends, uint64_t expects, uint32_t root = 0) {
  return [=](Rank& r, void* data) {
    const std::vector<uint64_t> counts(r.size, root_sends);
    std::vector<float> input(root_sends * r.size);
    return floe_scatter_v(r.comm, input.data(), counts.data(), nullptr, data,
                          r.rank == root ? root_sends : expects, FLOE_FLOAT32, root, nullptr);
  };
}
// Once two ranks' outboxes hold other collectives' blocks.
Call after_blocks(Call call) {
  return [=](Rank& r, void* data) {
    const floe_status_t status = all_reduce(500'000, FLOE_FLOAT32, FLOE_SUM)(r, data);
    return status == FLOE_OK ? call(r, data) : status;
  };
}
Call barrier() {
  return [](Rank& r, void*) { return floe_barrier(r.comm, nullptr); };
}

struct Disagreement {
  const char* name;
  Call most, odd;         // what the odd rank calls instead
  const char* most_says;  // words of the message
  const char* odd_says;
};

std::vector<Disagreement> disagreements() {
  return {
      {"Count", all_reduce(1000, FLOE_FLOAT32, FLOE_SUM), all_reduce(1001, FLOE_FLOAT32, FLOE_SUM), "1000",
       "1001"},
      {"LargeCount", all_reduce(1'000'000, FLOE_FLOAT32, FLOE_SUM),
       all_reduce(999'999, FLOE_FLOAT32, FLOE_SUM), "1000000", "999999"},
      {"SmallAndLarge", all_reduce(1, FLOE_FLOAT32, FLOE_SUM), all_reduce(1'000'000, FLOE_FLOAT32, FLOE_SUM),
       "1", "1000000"},
      {"NothingAndSomething", all_reduce(0, FLOE_FLOAT32, FLOE_SUM), all_reduce(7, FLOE_FLOAT32, FLOE_SUM),
       "0", "7"},
      {"Type", all_reduce(10, FLOE_FLOAT32, FLOE_SUM), all_reduce(10, FLOE_INT32, FLOE_SUM), "float32",
       "int32"},
      {"HalfTypes", all_reduce(300'000, FLOE_FLOAT16, FLOE_SUM), all_reduce(300'000, FLOE_BFLOAT16, FLOE_SUM),
       "float16", "bfloat16"},
      {"BoolAndByte", all_reduce(10, FLOE_BOOL, FLOE_SUM), all_reduce(10, FLOE_UINT8, FLOE_SUM), "bool",
       "uint8"},
      {"Float8Types", all_reduce(300'000, FLOE_FLOAT8_E4M3, FLOE_SUM),
       all_reduce(300'000, FLOE_FLOAT8_E5M2, FLOE_SUM), "float8_e4m3", "float8_e5m2"},
      {"ComplexAndPairs", all_reduce(100, FLOE_COMPLEX64, FLOE_SUM), all_reduce(100, FLOE_FLOAT64, FLOE_SUM),
       "complex64", "float64"},
      {"Bits", all_reduce(10, FLOE_INT32, FLOE_BAND), all_reduce(10, FLOE_INT32, FLOE_BXOR), "band", "bxor"},
      {"PremulSumAndSum", premul_sum(10), all_reduce(10, FLOE_FLOAT32, FLOE_SUM), "premul-sum", "sum"},
      {"LargePremulSumAndSum", premul_sum(500'000), all_reduce(500'000, FLOE_FLOAT32, FLOE_SUM), "premul-sum",
       "sum"},
      {"EqualBytes", all_reduce(100, FLOE_FLOAT64, FLOE_SUM), all_reduce(200, FLOE_FLOAT32, FLOE_SUM),
       "float64", "float32"},
      {"Operation", all_reduce(10, FLOE_FLOAT32, FLOE_SUM), all_reduce(10, FLOE_FLOAT32, FLOE_MAX), "sum",
       "max"},
      {"LargeOperation", all_reduce(500'000, FLOE_FLOAT32, FLOE_SUM),
       all_reduce(500'000, FLOE_FLOAT32, FLOE_AVG), "sum", "avg"},
      {"Kind", all_reduce(10, FLOE_FLOAT32, FLOE_SUM), broadcast(10, FLOE_FLOAT32, 0), "all_reduce",
       "broadcast"},
      {"LargeKind", all_reduce(500'000, FLOE_FLOAT32, FLOE_SUM), all_gather(500'000, FLOE_FLOAT32),
       "all_reduce", "all_gather"},
      {"KindBarrier", all_reduce(10, FLOE_FLOAT32, FLOE_SUM), barrier(), "all_reduce", "barrier"},
      {"KindScatter", reduce(500, 0), reduce_scatter(500, FLOE_SUM), "reduce", "reduce_scatter"},
      {"BroadcastRoot", broadcast(10, FLOE_FLOAT32, 0), broadcast(10, FLOE_FLOAT32, 1), "root 0", "root 1"},
      {"LargeBroadcastRoot", broadcast(1'000'000, FLOE_FLOAT32, 0), broadcast(1'000'000, FLOE_FLOAT32, 1),
       "root 0", "root 1"},
      {"BroadcastCount", broadcast(10, FLOE_FLOAT32, 0), broadcast(20, FLOE_FLOAT32, 0), "10", "20"},
      {"BroadcastType", broadcast(1'000'000, FLOE_FLOAT32, 0), broadcast(1'000'000, FLOE_INT32, 0), "float32",
       "int32"},
      {"RootAfterBlocks", after_blocks(broadcast(1'000'000, FLOE_FLOAT32, 0)),
       after_blocks(broadcast(1'000'000, FLOE_FLOAT32, 1)), "root 0", "root 1"},
      {"KindAfterBlocks", after_blocks(broadcast(1'000'000, FLOE_FLOAT32, 0)),
       after_blocks(all_reduce(1'000'000, FLOE_FLOAT32, FLOE_SUM)), "broadcast", "all_reduce"},
      {"ReduceRoot", reduce(10, 0), reduce(10, 1), "root 0", "root 1"},
      {"GatherCount", all_gather(1000, FLOE_FLOAT64), all_gather(999, FLOE_FLOAT64), "1000", "999"},
      {"ScatterOperation", reduce_scatter(5000, FLOE_SUM), reduce_scatter(5000, FLOE_MIN), "sum", "min"},
  };
}

// Rank 1 is the odd one; rank 0 is the root but where it says otherwise.
std::vector<Disagreement> block_disagreements() {
  return {
      {"AllToAllCount", all_to_all(10, FLOE_FLOAT32), all_to_all(11, FLOE_FLOAT32), "10", "11"},
      {"AllToAllLargeCount", all_to_all(200'000, FLOE_FLOAT32), all_to_all(200'001, FLOE_FLOAT32), "200000",
       "200001"},
      {"AllToAllType", all_to_all(10, FLOE_FLOAT32), all_to_all(10, FLOE_INT32), "float32", "int32"},
      {"AllToAllAndItsVForm", all_to_all(10, FLOE_FLOAT32), all_to_all_v(10, 10), "all_to_all (",
       "all_to_all_v"},
      {"AllToAllVBlock", all_to_all_v(30, 30), all_to_all_v(30, 29), "expects 30", "sends 29"},
      {"AllToAllVLargeBlock", all_to_all_v(300'000, 300'000), all_to_all_v(300'000, 300'001),
       "expects 300000", "sends 300001"},
      {"AllToAllVNothing", all_to_all_v(30, 30), all_to_all_v(30, 0), "expects 30", "sends 0"},
      {"AllToAllVSomething", all_to_all_v(0, 0), all_to_all_v(0, 8), "expects 0", "sends 8"},
      {"GatherCount", gather(10, 0), gather(11, 0), "10", "11"},
      {"GatherRoot", gather(10, 0), gather(10, 1), "root 0", "root 1"},
      {"GatherVBlock", gather_v(10, 10), gather_v(10, 11), "expects 10", "sends 11"},
      {"GatherVLargeBlock", gather_v(1'000'000, 1'000'000), gather_v(1'000'000, 999'999), "expects 1000000",
       "sends 999999"},
      {"GatherVNothing", gather_v(10, 10), gather_v(10, 0), "expects 10", "sends 0"},
      {"GatherVRoot", gather_v(10, 10, 0), gather_v(10, 10, 1), "root 0", "root 1"},
      {"ScatterCount", scatter(10, 0), scatter(11, 0), "10", "11"},
      {"ScatterRoot", scatter(10, 0), scatter(10, 1), "root 0", "root 1"},
      {"ScatterVBlock", scatter_v(10, 10), scatter_v(10, 11), "sends 10", "expects 11"},
      {"ScatterVLargeBlock", scatter_v(1'000'000, 1'000'000), scatter_v(1'000'000, 1'000'001),
       "sends 1000000", "expects 1000001"},
      {"ScatterVNothing", scatter_v(0, 0), scatter_v(0, 11), "sends 0", "expects 11"},
      {"GatherAndScatter", gather(10, 0), scatter(10, 0), "gather (", "scatter ("},
      {"AllGatherVTotal", all_gather_v(10, 10), all_gather_v(10, 11), "counts", "1 in all"},
      {"AllGatherVOrder", all_gather_v_swapped(false), all_gather_v_swapped(true), "digest", "digest"},
      {"ReduceScatterVCounts", reduce_scatter_v(3000, 3000, FLOE_SUM), reduce_scatter_v(3000, 0, FLOE_SUM),
       "counts", "000 in all"},
      {"ReduceScatterVOperation", reduce_scatter_v(10, 5, FLOE_SUM), reduce_scatter_v(10, 5, FLOE_MAX), "sum",
       "max"},
  };
}

// What the design promises; sanitizers slow everything down.
constexpr double kNoticed = kSanitized ? 10.0 : 1.0;

// Runs `attempt`, which returns how long the slowest call took. A machine that is busy with other things may
// delay ranks that have more to do than it has CPUs: once, not three times.
void expect_noticed(const std::function<double()>& attempt) {
  double slowest = 0;
  for (int i = 0; i < 3; ++i)
    if ((slowest = attempt()) <= kNoticed || testing::Test::HasFailure()) return;
  ADD_FAILURE() << "the last rank noticed after " << slowest << " s";
}

class Mismatch : public testing::TestWithParam<Disagreement> {};

// How long a call took, if that is the longest so far.
class Slowest {
 public:
  floe_status_t of(const std::function<floe_status_t()>& call) {
    const auto begin = std::chrono::steady_clock::now();
    const floe_status_t status = call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    for (double seen = seconds_;
         seen < took.count() && !seconds_.compare_exchange_weak(seen, took.count());) {
    }
    return status;
  }
  double seconds() const { return seconds_; }

 private:
  std::atomic<double> seconds_{0};
};

// Beside rank 1, the odd one.
bool names_another_rank(const std::string& text) {
  for (const char* who : {"rank 0", "rank 2", "rank 3"})
    if (text.find(who) != text.npos) return true;
  return false;
}

// What a rank sees: the disagreement at this call, or, if its part was over before anyone could know, at
// the next one.
void expect_mismatch(Rank& r, const Call& call, void* data, const Disagreement& d, Slowest& slowest) {
  floe_status_t status = slowest.of([&] { return call(r, data); });
  if (status == FLOE_OK) status = slowest.of([&] { return floe_barrier(r.comm, nullptr); });
  EXPECT_EQ(FLOE_ERR_MISMATCH, status) << floe_status_string(status) << ": " << floe_last_error();
  const std::string text = floe_last_error();
  EXPECT_NE(text.npos, text.find("rank 1")) << text;
  EXPECT_TRUE(names_another_rank(text)) << text;
  EXPECT_NE(text.npos, text.find(d.most_says)) << text;
  EXPECT_NE(text.npos, text.find(d.odd_says)) << text;
  EXPECT_NE(FLOE_OK, floe_barrier(r.comm, nullptr)) << "the communicator goes on";
}

TEST_P(Mismatch, IsAnErrorOnEveryRankThatSaysWhoCalledWhat) {
  const Disagreement& d = GetParam();
  for (const uint32_t ranks : {2, 4})
    expect_noticed([&] {
      Slowest slowest;
      std::barrier together(ranks);  // not floe's: nobody's call is early
      run_ranks(ranks, [&](Rank& r) {
        std::vector<double> data(8'000'000 / sizeof(double) * 2);
        together.arrive_and_wait();
        expect_mismatch(r, r.rank == 1 ? d.odd : d.most, data.data(), d, slowest);
      });
      return slowest.seconds();
    });
}

// After calls that agreed, in the middle of a stream.
TEST_P(Mismatch, IsFoundAfterCallsThatAgreed) {
  const Disagreement& d = GetParam();
  expect_noticed([&] {
    Slowest slowest;
    run_ranks(3, [&](Rank& r) {
      std::vector<double> data(8'000'000 / sizeof(double) * 2);
      for (int i = 0; i < 10; ++i) {
        ASSERT_FLOE_OK(floe_broadcast(r.comm, data.data(), 50'000, FLOE_FLOAT64, 1, nullptr));
        // Nobody goes on before all are here: else the error may reach a rank that is some calls behind.
        ASSERT_FLOE_OK(
            floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), 10, FLOE_FLOAT64, FLOE_MAX, nullptr));
      }
      expect_mismatch(r, r.rank == 1 ? d.odd : d.most, data.data(), d, slowest);
    });
    return slowest.seconds();
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Mismatch, testing::ValuesIn(disagreements()),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(OfBlocks, Mismatch, testing::ValuesIn(block_disagreements()),
                         [](const auto& info) { return std::string(info.param.name); });

// A rank that left a call out: the next ones meet, and differ.
TEST(Order, IsComparedWhenARankLeavesACallOut) {
  expect_noticed([] {
    Slowest slowest;
    run_ranks(3, [&](Rank& r) {
      std::vector<float> data(100);
      const auto call = [&](auto&& collective) { return slowest.of(collective); };
      floe_status_t status = FLOE_OK;
      if (r.rank != 2)
        status = call([&] { return floe_broadcast(r.comm, data.data(), 100, FLOE_FLOAT32, 0, nullptr); });
      if (status == FLOE_OK)
        status = call([&] {
          return floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), 100, FLOE_FLOAT32, FLOE_SUM, nullptr);
        });
      if (status == FLOE_OK) status = call([&] { return floe_barrier(r.comm, nullptr); });
      EXPECT_EQ(FLOE_ERR_MISMATCH, status) << floe_last_error();
    });
    return slowest.seconds();
  });
}

// Neither rank reads, and each looks for the other's turns in slots of another kind when it is far ahead.
TEST(Order, IsComparedWhereEachGivesToTheOther) {
  expect_noticed([] {
    Slowest slowest;
    run_ranks(2, [&](Rank& r) {
      std::vector<float> data(20);
      const Call call = r.rank == 0 ? broadcast(2, FLOE_FLOAT32, 0) : gather(10, 0);
      floe_status_t status = FLOE_OK;
      for (int turn = 0; turn < 100 && status == FLOE_OK; ++turn)
        status = slowest.of([&] { return call(r, data.data()); });
      if (status == FLOE_OK) status = slowest.of([&] { return floe_barrier(r.comm, nullptr); });
      EXPECT_EQ(FLOE_ERR_MISMATCH, status) << floe_last_error();
    });
    return slowest.seconds();
  });
}

}  // namespace
}  // namespace floe::test
