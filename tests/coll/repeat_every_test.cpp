// Small collectives of every kind, again and again: what repeat_test.cpp has of all_reduce.
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "block_exercise.h"
#include "exercise.h"
#include "refusals.h"

namespace floe::test {
namespace {

class RepeatedKind : public testing::TestWithParam<uint32_t> {};

// Blocks of a word and less, of a line, and of several; each shape a few times, in place and not.
constexpr std::array<uint64_t, 10> kCounts = {1, 2, 3, 4, 8, 14, 15, 40, 90, 300};
constexpr std::array kBlockKinds = {BlockCollective::kAllToAll, BlockCollective::kGather,
                                    BlockCollective::kScatter};

// From one root to the next.
uint32_t step(const Rank& r) { return r.size > 4 ? 7 : 1; }

TEST_P(RepeatedKind, WithOtherBuffersAndRoots) {
  run_ranks(GetParam(), [](Rank& r) {
    uint64_t seed = 0;
    for (const uint64_t count : kCounts)
      for (uint32_t root = 0; root < r.size; root += step(r))
        for (const bool in_place : {false, true}) {
          for (const Collective kind : all_collectives())
            for (int round = 0; round < 4; ++round)
              Exercise(r, {.collective = kind, .count = count, .root = root, .in_place = in_place}, ++seed)
                  .run();
          for (const BlockCollective kind : kBlockKinds)
            for (int round = 0; round < 4; ++round)
              BlockExercise(r, {.collective = kind, .largest = count, .root = root, .in_place = in_place},
                            ++seed)
                  .run();
        }
  });
}

// All kinds in turn, with ranks late at times and far ahead at others.
TEST_P(RepeatedKind, AmongOthersWithRanksAheadAndBehind) {
  run_ranks(GetParam(), [](Rank& r) {
    std::mt19937_64 random(7), own(r.rank);
    for (uint64_t round = 0; round < 300; ++round) {
      const auto pick = random() % (all_collectives().size() + kBlockKinds.size());
      const uint64_t count = kCounts[random() % kCounts.size()];
      const auto root = static_cast<uint32_t>(random() % r.size);
      const uint64_t times = 1 + random() % 70;
      if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000));
      for (uint64_t i = 0; i < times; ++i) {
        if (pick < all_collectives().size())
          Exercise(r, {.collective = all_collectives()[pick], .count = count, .root = root}, round + i).run();
        else
          BlockExercise(
              r, {.collective = kBlockKinds[pick - all_collectives().size()], .largest = count, .root = root},
              round + i)
              .run();
      }
    }
  });
}

// The root is as far ahead as slots allow, with the oldest data still to be read.
TEST_P(RepeatedKind, WhatIsReadLateIsThatOfItsTurn) {
  run_ranks(GetParam(), [](Rank& r) {
    for (const uint64_t count : {1, 2, 16, 100})
      for (uint32_t root = 0; root < r.size; root += step(r))
        for (int i = 0; i < 200; ++i) {
          if (r.rank != root && i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          std::vector<int32_t> data(count, r.rank == root ? i : -1);
          ASSERT_FLOE_OK(floe_broadcast(r.comm, data.data(), count, FLOE_INT32, root, nullptr));
          ASSERT_EQ(std::vector<int32_t>(count, i), data);
        }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, RepeatedKind, testing::Values(1, 2, 3, 4, 16, 17));

struct Named {
  const char* name;
  std::function<floe_status_t(Rank&, const void* send, void* recv, uint64_t count, floe_type_t type,
                              uint32_t root)>
      call;
};
const std::vector<Named>& calls() {
  static const std::vector<Named> kCalls = {
      {"reduce", [](Rank& r, const void* s, void* d, uint64_t n, floe_type_t t,
                    uint32_t root) { return floe_reduce(r.comm, s, d, n, t, FLOE_SUM, root, nullptr); }},
      {"all_gather", [](Rank& r, const void* s, void* d, uint64_t n, floe_type_t t,
                        uint32_t) { return floe_all_gather(r.comm, s, d, n, t, nullptr); }},
      {"reduce_scatter", [](Rank& r, const void* s, void* d, uint64_t n, floe_type_t t,
                            uint32_t) { return floe_reduce_scatter(r.comm, s, d, n, t, FLOE_SUM, nullptr); }},
      {"all_to_all", [](Rank& r, const void* s, void* d, uint64_t n, floe_type_t t,
                        uint32_t) { return floe_all_to_all(r.comm, s, d, n, t, nullptr); }},
      {"gather", [](Rank& r, const void* s, void* d, uint64_t n, floe_type_t t,
                    uint32_t root) { return floe_gather(r.comm, s, d, n, t, root, nullptr); }},
      {"scatter", [](Rank& r, const void* s, void* d, uint64_t n, floe_type_t t, uint32_t root) {
         return floe_scatter(r.comm, s, d, n, t, root, nullptr);
       }}};
  return kCalls;
}

TEST(RepeatedCallOfEveryKind, RefusesWhatTheFirstRefuses) {
  refuse([](Rank& r, float* data) {
    constexpr auto kBad = FLOE_ERR_ARGUMENT;
    float* const to = data + 32;
    for (const auto& [name, call] : calls()) {
      SCOPED_TRACE(name);
      const auto again = [&, &call = call] {
        ASSERT_FLOE_OK(call(r, data, to, 2, FLOE_FLOAT32, r.size - 1));
      };
      const bool from_root = std::string(name) == "scatter",
                 to_root = name[0] == 'g' || std::string(name) == "reduce";
      const bool is_root = r.rank == r.size - 1;
      again();
      again();
      if (is_root || !from_root)
        expect_refused(kBad, call(r, nullptr, to, 2, FLOE_FLOAT32, r.size - 1), "send is NULL");
      again();
      if (is_root || !to_root)
        expect_refused(kBad, call(r, data, nullptr, 2, FLOE_FLOAT32, r.size - 1), "recv is NULL");
      again();
      if (is_root || !(from_root || to_root))
        expect_refused(kBad, call(r, data, data + 1, 2, FLOE_FLOAT32, r.size - 1), "overlap");
      again();
      if (!is_root && to_root)
        expect_refused(kBad, call(r, FLOE_IN_PLACE, to, 2, FLOE_FLOAT32, r.size - 1), "only the root");
      again();
      expect_refused(kBad, call(r, data, to, 2, kBadType, r.size - 1), "floe_type_t");
      again();
      expect_refused(kBad,
                     call(r, data, to, std::numeric_limits<uint64_t>::max() / 8, FLOE_FLOAT64, r.size - 1),
                     "count");
      again();
      if (from_root || to_root) expect_refused(kBad, call(r, data, to, 2, FLOE_FLOAT32, r.size), "root");
      again();
    }
    const auto send = [&](floe_comm_t* comm, void* buffer, uint32_t root) {
      return floe_broadcast(comm, buffer, 2, FLOE_FLOAT32, root, nullptr);
    };
    for (int i = 0; i < 3; ++i) ASSERT_FLOE_OK(send(r.comm, data, 0));
    expect_refused(kBad, send(r.comm, nullptr, 0), "buffer is NULL");
    expect_refused(kBad, send(r.comm, const_cast<void*>(FLOE_IN_PLACE), 0), "FLOE_IN_PLACE");
    expect_refused(kBad, send(r.comm, data, r.size), "root");
    EXPECT_EQ(kBad, send(nullptr, data, 0));
    for (int i = 0; i < 3; ++i) ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
    EXPECT_EQ(kBad, floe_barrier(nullptr, nullptr));
  });
}

// The peer that waits finds out at once.
TEST(RepeatedCallOfEveryKind, NamesARankThatCallsSomethingElse) {
  for (const auto& [usual, other] :
       {std::pair<uint64_t, uint64_t>{1, 2}, {2, 16}, {16, 2}, {16, 17}, {16, 0}})
    run_ranks(3, [usual = usual, other = other](Rank& r) {
      std::array<float, 32> data{}, all{};
      const auto gather = [&](uint64_t count) {
        return floe_all_gather(r.comm, data.data(), all.data(), count / 3, FLOE_UINT8, nullptr);
      };
      for (int i = 0; i < 10; ++i) ASSERT_FLOE_OK(gather(usual * 3));
      const auto begin = std::chrono::steady_clock::now();
      const floe_status_t got = r.rank == 1 && other == 0 ? floe_barrier(r.comm, nullptr)
                                                          : gather((r.rank == 1 ? other : usual) * 3);
      expect_refused(FLOE_ERR_MISMATCH, got, "rank 1");
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSanitized ? 20 : 5));
    });
}

// A rank that only gave, or gave where another one should have, learns of it where it waits.
TEST(RepeatedCallOfEveryKind, NamesARankThatCallsARootedOneOtherwise) {
  struct Call {
    uint64_t count = 4;
    floe_type_t type = FLOE_INT32;
    uint32_t root = 0;
  };
  for (const Call& other : {Call{.count = 5}, Call{.type = FLOE_FLOAT32}, Call{.root = 1}, Call{.root = 2}})
    for (const bool reduces : {false, true})
      run_ranks(3, [&other, reduces](Rank& r) {
        std::array<int32_t, 8> send{}, recv{};
        const auto call = [&](const Call& c) {
          return reduces ? floe_reduce(r.comm, send.data(), recv.data(), c.count, c.type, FLOE_SUM, c.root,
                                       nullptr)
                         : floe_broadcast(r.comm, recv.data(), c.count, c.type, c.root, nullptr);
        };
        for (int i = 0; i < 10; ++i) ASSERT_FLOE_OK(call({}));
        ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));  // or a rank may hear of it in those
        const auto begin = std::chrono::steady_clock::now();
        floe_status_t got = call(r.rank == 1 ? other : Call{});
        if (got == FLOE_OK) got = floe_barrier(r.comm, nullptr);
        expect_refused(FLOE_ERR_MISMATCH, got, "rank 1");
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSanitized ? 20 : 5));
      });
}

TEST(RepeatedCallOfEveryKind, AfterAnAbortFails) {
  std::vector<Named> all = calls();
  all.push_back({"broadcast", [](Rank& r, const void*, void* d, uint64_t n, floe_type_t t, uint32_t root) {
                   return floe_broadcast(r.comm, d, n, t, root, nullptr);
                 }});
  all.push_back({"barrier", [](Rank& r, const void*, void*, uint64_t, floe_type_t, uint32_t) {
                   return floe_barrier(r.comm, nullptr);
                 }});
  for (const auto& [name, call] : all)
    for (const uint32_t size : {2, 3})
      for (const uint32_t root : {0u, size - 1})
        run_ranks(size, [&call = call, root](Rank& r) {
          std::array<float, 8> send{}, recv{};
          for (int i = 0; i < 10; ++i)
            ASSERT_FLOE_OK(call(r, send.data(), recv.data(), 1, FLOE_FLOAT32, root));
          floe_barrier(r.comm, nullptr);
          if (r.rank == 0) floe_comm_abort(r.comm);
          // Who only gives may be through before it hears of it.
          floe_status_t got = FLOE_OK;
          while (got == FLOE_OK) got = call(r, send.data(), recv.data(), 1, FLOE_FLOAT32, root);
          expect_refused(FLOE_ERR_ABORTED, got, "floe_comm_abort");
        });
}

// A root that runs ahead must stop for its readers, and say who it waits for.
TEST(RepeatedCallOfEveryKind, EndsAtTheDeadline) {
  run_ranks(2, [](Rank& r) {
    float value = 1;
    for (int i = 0; i < 10; ++i) ASSERT_FLOE_OK(floe_broadcast(r.comm, &value, 1, FLOE_FLOAT32, 0, nullptr));
    ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
    if (r.rank == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    ASSERT_FLOE_OK(floe_comm_set_timeout(r.comm, 300));
    floe_status_t got = FLOE_OK;
    while (got == FLOE_OK) got = floe_broadcast(r.comm, &value, 1, FLOE_FLOAT32, 0, nullptr);
    expect_refused(FLOE_ERR_TIMEOUT, got, "rank 1");
  });
}

}  // namespace
}  // namespace floe::test
