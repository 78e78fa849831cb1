// Ends that a rank wants: abort, and destroy with work under way.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "exercise.h"
#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

// Rank 1 never comes: only the abort can end rank 0's calls, far before the deadline of 30 s.
TEST(Abort, WakesABlockedCallOnEveryRank) {
  Processes processes(3, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    if (rank == 1) {
      while (Processes::report(0).status < 0 || Processes::report(2).status < 0)
        std::this_thread::sleep_for(1ms);
      std::vector<float> data(100'000);
      EXPECT_EQ(FLOE_ERR_ABORTED, all_reduce_of(me.rank(), data)()) << floe_last_error();
      return;
    }
    std::thread aborter;
    if (rank == 0)
      aborter = std::thread([&] {
        std::this_thread::sleep_for(300ms);  // the call sleeps by now
        EXPECT_FLOE_OK(floe_comm_abort(me.comm()));
      });
    std::vector<float> data(100'000);
    call_until_it_fails(rank, all_reduce_of(me.rank(), data));
    if (aborter.joinable()) aborter.join();
    EXPECT_EQ(FLOE_ERR_ABORTED, floe_barrier(me.comm(), nullptr));
  });
  processes.expect_success(25s);
  expect_report(0, FLOE_ERR_ABORTED, {"all_reduce", "abort"});
  expect_report(2, FLOE_ERR_ABORTED, {"rank 0"});
}

TEST(Abort, EndsRequestsAndTheirBuffersAreFree) {
  run_ranks(2, [](Rank& r) {
    if (r.rank == 0) {
      std::vector<float> data(1'000'000, 1.0f);
      char byte = 0;
      Request reduce, receive;
      ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), data.size(), FLOE_FLOAT32, FLOE_SUM,
                                     reduce.out()));
      ASSERT_FLOE_OK(floe_recv(r.comm, &byte, 1, FLOE_UINT8, 1, 0, receive.out()));
      ASSERT_FLOE_OK(floe_comm_abort(r.comm));
      data = {};  // nothing may read or write it any more: sanitizers watch
      EXPECT_EQ(FLOE_ERR_ABORTED, reduce.wait());
      EXPECT_EQ(FLOE_ERR_ABORTED, receive.wait());
      EXPECT_EQ(FLOE_ERR_ABORTED, floe_test(receive.get()));
    } else {
      std::vector<float> data(1'000'000, 1.0f);
      EXPECT_EQ(FLOE_ERR_ABORTED, floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), data.size(),
                                                  FLOE_FLOAT32, FLOE_SUM, nullptr))
          << floe_last_error();
    }
  });
}

// Its receiver may be reading the sender's memory when that ends: what has come is the message, or an error.
TEST(Abort, WhoEndsASendMayOverwriteItAtOnce) {
  constexpr size_t kBytes = 16 << 20;
  constexpr int kTimes = kSanitized ? 10 : 40;
  Processes(2, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    std::vector<uint8_t> data(kBytes), out(kBytes);
    int whole = 0;
    for (int i = 0; i < kTimes; ++i) {
      floe_comm_t* comm = nullptr;
      ASSERT_FLOE_OK(floe_comm_split(me.comm(), 0, 0, &comm));
      std::fill(data.begin(), data.end(), uint8_t{1});
      ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
      if (rank == 0) {
        Request sending;
        ASSERT_FLOE_OK(floe_send(comm, data.data(), kBytes, FLOE_UINT8, 1, 0, sending.out()));
        if (i + 1 == kTimes) {
          ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));  // once it has arrived
        } else {
          std::this_thread::sleep_for(200us * i);
        }
        ASSERT_FLOE_OK(floe_comm_abort(comm));
        std::fill(data.begin(), data.end(), uint8_t{2});
      } else {
        // One that nobody receives goes back: ranks that both send read from each other first. The other rank
        // may have ended the communicator before either call.
        Request back;
        floe_status_t status = floe_send(comm, out.data(), kBytes, FLOE_UINT8, 0, 0, back.out());
        if (status == FLOE_OK) status = floe_recv(comm, data.data(), kBytes, FLOE_UINT8, 0, 0, nullptr);
        ASSERT_TRUE(status == FLOE_OK || status == FLOE_ERR_ABORTED) << floe_last_error();
        if (status == FLOE_OK) {
          ++whole;
          ASSERT_EQ(std::count(data.begin(), data.end(), 1), static_cast<ptrdiff_t>(kBytes)) << "round " << i;
        }
        if (i + 1 == kTimes) {
          ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
        }
      }
      ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
      floe_comm_destroy(comm);
    }
    EXPECT_TRUE(rank == 0 || whole > 0);
  }).expect_success(60s);
}

TEST(Abort, TwiceAndFromAllRanksIsFine) {
  run_ranks(3, [](Rank& r) {
    EXPECT_FLOE_OK(floe_comm_abort(r.comm));
    EXPECT_FLOE_OK(floe_comm_abort(r.comm));
    EXPECT_EQ(FLOE_ERR_ABORTED, floe_barrier(r.comm, nullptr));
  });
}

// With a worker the operation is being moved while the communicator goes.
TEST(Destroy, WithWorkUnderWayEndsIt) {
  for (const int32_t workers : {0, 1})
    run_ranks(
        2,
        [](Rank& r) {
          std::vector<float> data(100);
          Request receive;
          if (r.rank == 1) {
            EXPECT_EQ(FLOE_ERR_PEER, floe_barrier(r.comm, nullptr)) << floe_last_error();
            return;
          }
          ASSERT_FLOE_OK(floe_recv(r.comm, data.data(), data.size(), FLOE_FLOAT32, 1, 0, receive.out()));
          std::this_thread::sleep_for(50ms);
          ASSERT_FLOE_OK(floe_comm_destroy(r.comm));
          r.comm = nullptr;
          EXPECT_EQ(FLOE_ERR_ABORTED, receive.wait());
        },
        {.workers = workers});
}

constexpr double kSoon = kSanitized ? 1.0 : 0.1;

// Whatever they wait in, and however many they are.
TEST(Abort, WakesEveryThreadOfTheRankWithin100ms) {
  expect_within(kSoon, [] {
    std::atomic<double> slowest{0};
    run_ranks(2, [&](Rank& r) {
      if (r.rank == 1) {
        char byte = 0;
        EXPECT_EQ(FLOE_ERR_ABORTED, floe_recv(r.comm, &byte, 1, FLOE_UINT8, 0, 9, nullptr));
        return;
      }
      Request posted;
      char byte = 0;
      ASSERT_FLOE_OK(floe_recv(r.comm, &byte, 1, FLOE_UINT8, 1, 1, posted.out()));
      std::vector<float> data(200'000);
      floe_comm_t* child = nullptr;
      char other = 0;
      const std::vector<std::function<floe_status_t()>> calls = {
          [&] { return floe_comm_split(r.comm, 0, 0, &child); },
          [&] { return floe_recv(r.comm, &other, 1, FLOE_UINT8, FLOE_ANY_SOURCE, 2, nullptr); },
          [&] { return posted.wait(); },
          [&] { return floe_wait(posted.get(), 20'000); },
      };
      std::atomic<double> aborted{0};
      std::vector<std::thread> threads;
      for (const auto& call : calls)
        threads.emplace_back([&] {
          EXPECT_EQ(FLOE_ERR_ABORTED, call()) << floe_last_error();
          const double took = steady_seconds() - aborted;
          for (double seen = slowest; seen < took && !slowest.compare_exchange_weak(seen, took);) {
          }
        });
      std::this_thread::sleep_for(300ms);  // they sleep by now
      aborted = steady_seconds();
      EXPECT_FLOE_OK(floe_comm_abort(r.comm));
      for (auto& thread : threads) thread.join();
    });
    return slowest.load();
  });
}

// A call that waits for rank 2, which never comes, on a buffer that is large enough.
struct Blocked {
  const char* name;
  std::function<floe_status_t(Rank&, float* data)> call;
};

floe_status_t wait_for(floe_status_t started, floe_request_t* request, uint64_t timeout_ms) {
  if (started != FLOE_OK) return started;
  const floe_status_t status = floe_wait(request, timeout_ms);
  floe_request_free(request);
  return status;
}

constexpr uint64_t kLarge = 1'500'000;  // more bytes than are ever sent unasked (engine/messenger.h)

std::vector<Blocked> blocked_calls() {
  const auto all_reduce = [](uint64_t count) {
    return [=](Rank& r, float* data) {
      return floe_all_reduce(r.comm, FLOE_IN_PLACE, data, count, FLOE_FLOAT32, FLOE_SUM, nullptr);
    };
  };
  const auto waiting = [](uint64_t timeout_ms) {
    return [=](Rank& r, float* data) {
      floe_request_t* request = nullptr;
      const floe_status_t started = floe_all_gather(r.comm, FLOE_IN_PLACE, data, 100, FLOE_FLOAT32, &request);
      return wait_for(started, request, timeout_ms);
    };
  };
  const auto all_to_all_v = [](Rank& r, float* data) {
    const std::vector<uint64_t> counts(r.size, 1000);
    return floe_all_to_all_v(r.comm, FLOE_IN_PLACE, nullptr, nullptr, data, counts.data(), nullptr,
                             FLOE_FLOAT32, nullptr);
  };
  const auto split = [](Rank& r, float*) {
    floe_comm_t* child = nullptr;
    return floe_comm_split(r.comm, 0, 0, &child);
  };
  const auto polling = [](Rank& r, float* data) {
    floe_request_t* request = nullptr;
    floe_status_t status = floe_recv(r.comm, data, 1, FLOE_FLOAT32, 2, 0, &request);
    while (status == FLOE_OK && (status = floe_test(request)) == FLOE_IN_PROGRESS) {
      status = FLOE_OK;
      std::this_thread::sleep_for(1ms);
    }
    floe_request_free(request);
    return status;
  };
  return {
      {"Barrier", [](Rank& r, float*) { return floe_barrier(r.comm, nullptr); }},
      {"SmallAllReduce", all_reduce(1)},
      {"LargeAllReduce", all_reduce(kLarge)},
      {"Broadcast",
       [](Rank& r, float* data) { return floe_broadcast(r.comm, data, kLarge, FLOE_FLOAT32, 2, nullptr); }},
      {"ReduceScatter",
       [](Rank& r, float* data) {
         return floe_reduce_scatter(r.comm, data, data + kLarge, 1000, FLOE_FLOAT32, FLOE_MAX, nullptr);
       }},
      {"AllToAllV", all_to_all_v},
      {"Split", split},
      {"LargeSend",
       [](Rank& r, float* data) { return floe_send(r.comm, data, kLarge, FLOE_FLOAT32, 2, 0, nullptr); }},
      {"Receive",
       [](Rank& r, float* data) { return floe_recv(r.comm, data, 1, FLOE_FLOAT32, 2, 0, nullptr); }},
      {"Wait", waiting(FLOE_NO_TIMEOUT)},
      {"WaitWithATimeout", waiting(20'000)},
      {"Test", polling},
  };
}

class BlockedCall : public testing::TestWithParam<Blocked> {};

// Here and on the other rank that waits in the same call.
TEST_P(BlockedCall, EndsWithin100msOfAnAbort) {
  for (const int32_t workers : {0, 1})
    expect_within(kSoon, [&] {
      std::atomic<double> aborted{0}, last{0};
      std::atomic<uint32_t> ended{0};
      run_ranks(3,
                [&](Rank& r) {
                  if (r.rank == 2) {
                    while (ended < 2) std::this_thread::sleep_for(1ms);
                    return;
                  }
                  std::thread aborter;
                  if (r.rank == 0)
                    aborter = std::thread([&] {
                      std::this_thread::sleep_for(300ms);  // the calls sleep by now
                      aborted = steady_seconds();
                      EXPECT_FLOE_OK(floe_comm_abort(r.comm));
                    });
                  std::vector<float> data(2 * kLarge);
                  EXPECT_EQ(FLOE_ERR_ABORTED, GetParam().call(r, data.data())) << floe_last_error();
                  const double now = steady_seconds();
                  for (double seen = last; seen < now && !last.compare_exchange_weak(seen, now);) continue;
                  ++ended;
                  if (aborter.joinable()) aborter.join();
                },
                {.workers = workers});
      return last - aborted;
    });
}

INSTANTIATE_TEST_SUITE_P(In, BlockedCall, testing::ValuesIn(blocked_calls()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Destroy, WithWorkInFlightTakesAtMost100ms) {
  expect_within(kSoon, [] {
    double took = 0;
    run_ranks(2, [&](Rank& r) {
      std::vector<float> data(1'000'000, 1.0f), message(1'000'000);
      char byte = 0;
      Request reduce, send, receive;
      if (r.rank == 1) {
        std::this_thread::sleep_for(400ms);  // alive, and in no call
        return;
      }
      ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), data.size(), FLOE_FLOAT32, FLOE_SUM,
                                     reduce.out()));
      ASSERT_FLOE_OK(floe_send(r.comm, message.data(), message.size(), FLOE_FLOAT32, 1, 3, send.out()));
      ASSERT_FLOE_OK(floe_recv(r.comm, &byte, 1, FLOE_UINT8, 1, 4, receive.out()));
      const double begin = steady_seconds();
      ASSERT_FLOE_OK(floe_comm_destroy(r.comm));
      took = steady_seconds() - begin;
      r.comm = nullptr;
      data = {};  // nothing may read or write them any more: sanitizers watch
      message = {};
      for (Request* request : {&reduce, &send, &receive}) EXPECT_EQ(FLOE_ERR_ABORTED, request->wait());
    });
    return took;
  });
}

}  // namespace
}  // namespace floe::test
