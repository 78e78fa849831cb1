// A small all_reduce like the last one takes a way with fewer checks: it must refuse, and find, all that the
// first one would.
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "refusals.h"

namespace floe::test {
namespace {

floe_status_t sum(Rank& r, const void* send, void* recv, uint64_t count, floe_type_t type = FLOE_FLOAT32,
                  floe_op_t op = FLOE_SUM) {
  return floe_all_reduce(r.comm, send, recv, count, type, op, nullptr);
}

class Repeated : public testing::TestWithParam<uint32_t> {};

TEST_P(Repeated, WithOtherBuffersInPlaceAndNot) {
  run_ranks(GetParam(), [](Rank& r) {
    for (uint64_t count = 0; count <= 600; count += count < 20 ? 1 : 45)
      for (int round = 0; round < 6; ++round) {
        std::vector<float> send(count + 1), recv(count + 1), expected(count);
        for (uint64_t i = 0; i < count; ++i) {
          const float value = static_cast<float>(i + static_cast<uint64_t>(round));
          send[i] = value * static_cast<float>(r.rank + 1);
          expected[i] = value * static_cast<float>(r.size * (r.size + 1) / 2);
        }
        recv.back() = -1;
        const bool in_place = round % 2 == 0;
        if (in_place) recv = send;
        const float beyond = recv.back();
        ASSERT_FLOE_OK(sum(r, in_place ? FLOE_IN_PLACE : send.data(), recv.data(), count));
        ASSERT_EQ(0, std::memcmp(expected.data(), recv.data(), count * sizeof(float)))
            << count << ' ' << round;
        ASSERT_EQ(beyond, recv.back());
      }
  });
}

TEST_P(Repeated, OfAnotherTypeOperationOrCount) {
  run_ranks(GetParam(), [](Rank& r) {
    for (int round = 0; round < 50; ++round) {
      std::array<int32_t, 2> ints = {static_cast<int32_t>(r.rank), -1};
      std::array<float, 2> floats = {static_cast<float>(r.rank), 2};
      ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, ints.data(), 2, FLOE_INT32, FLOE_MAX));
      ASSERT_EQ(static_cast<int32_t>(r.size - 1), ints[0]);
      ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, floats.data(), 2, FLOE_FLOAT32, FLOE_MAX));
      ASSERT_EQ(static_cast<float>(r.size - 1), floats[0]);
      ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, floats.data(), 1, FLOE_FLOAT32, FLOE_AVG));
      ASSERT_EQ(static_cast<float>(r.size - 1), floats[0]);
      ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, ints.data(), 1, FLOE_INT32, FLOE_BAND));
      ASSERT_EQ(static_cast<int32_t>(r.size - 1), ints[0]);
      ASSERT_EQ(-1, ints[1]);
    }
  });
}

// Ranks that come a few looks, a few pauses, and some milliseconds late.
TEST_P(Repeated, WhenPeersAreLate) {
  run_ranks(GetParam(), [](Rank& r) {
    for (int round = 0; round < 40; ++round) {
      if (static_cast<uint32_t>(round) % r.size == r.rank)
        std::this_thread::sleep_for(std::chrono::microseconds(round % 4 == 0 ? 3000 : round));
      float value = static_cast<float>(r.rank + 1);
      ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, &value, 1));
      ASSERT_EQ(static_cast<float>(r.size * (r.size + 1) / 2), value);
    }
  });
}

TEST_P(Repeated, BehindOnesThatAreUnderWay) {
  run_ranks(GetParam(), [](Rank& r) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> large(100'000, 1);
      float value = 1;
      ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, &value, 1));
      Request request;
      ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, large.data(), large.size(), FLOE_FLOAT32,
                                     FLOE_SUM, request.out()));
      ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, &value, 1));
      ASSERT_EQ(static_cast<float>(r.size * r.size), value);
      ASSERT_FLOE_OK(request.wait());
      ASSERT_EQ(static_cast<float>(r.size), large.back());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Repeated, testing::Values(1, 2, 3, 4, 8, 17));

TEST(RepeatedCall, RefusesWhatTheFirstRefuses) {
  refuse([](Rank& r, float* data) {
    const auto again = [&] { ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, data, 2)); };
    again();
    again();
    expect_refused(FLOE_ERR_ARGUMENT, sum(r, FLOE_IN_PLACE, nullptr, 2), "is NULL");
    again();
    expect_refused(FLOE_ERR_ARGUMENT, sum(r, nullptr, data, 2), "send is NULL");
    again();
    expect_refused(FLOE_ERR_ARGUMENT, sum(r, data, const_cast<void*>(FLOE_IN_PLACE), 2), "FLOE_IN_PLACE");
    again();
    expect_refused(FLOE_ERR_ARGUMENT, sum(r, data, data + 1, 2), "overlap");
    again();
    expect_refused(FLOE_ERR_ARGUMENT, sum(r, FLOE_IN_PLACE, data, 2, kBadType), "floe_type_t");
    again();
    expect_refused(FLOE_ERR_ARGUMENT, sum(r, FLOE_IN_PLACE, data, std::numeric_limits<uint64_t>::max()),
                   "count");
    EXPECT_EQ(FLOE_ERR_ARGUMENT,
              floe_all_reduce(nullptr, FLOE_IN_PLACE, data, 2, FLOE_FLOAT32, FLOE_SUM, nullptr));
    again();
  });
}

TEST(RepeatedCall, NamesARankThatCallsSomethingElse) {
  run_ranks(3, [](Rank& r) {
    std::array<float, 2> data{};
    for (int i = 0; i < 10; ++i) ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, data.data(), 2));
    const floe_status_t got =
        r.rank == 1 ? floe_barrier(r.comm, nullptr) : sum(r, FLOE_IN_PLACE, data.data(), 2);
    expect_refused(FLOE_ERR_MISMATCH, got, "rank 1");
    expect_refused(FLOE_ERR_MISMATCH, sum(r, FLOE_IN_PLACE, data.data(), 2), "rank 1");
  });
}

TEST(RepeatedCall, AfterAnAbortFails) {
  run_ranks(2, [](Rank& r) {
    float value = 1;
    for (int i = 0; i < 10; ++i) ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, &value, 1));
    if (r.rank == 0) floe_comm_abort(r.comm);
    expect_refused(FLOE_ERR_ABORTED, sum(r, FLOE_IN_PLACE, &value, 1), "floe_comm_abort");
  });
}

TEST(RepeatedCall, IsCounted) {
  run_ranks(2, [](Rank& r) {
    float value = 1;
    floe_comm_statistics_t before = FLOE_COMM_STATISTICS_INIT, after = FLOE_COMM_STATISTICS_INIT;
    ASSERT_FLOE_OK(floe_comm_statistics(r.comm, &before));
    for (int i = 0; i < 10; ++i) ASSERT_FLOE_OK(sum(r, FLOE_IN_PLACE, &value, 1));
    ASSERT_FLOE_OK(floe_comm_statistics(r.comm, &after));
    EXPECT_EQ(10U, after.collectives - before.collectives);
    EXPECT_EQ(10 * sizeof(float), after.collective_bytes - before.collective_bytes);
  });
}

}  // namespace
}  // namespace floe::test
