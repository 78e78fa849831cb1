// Ends that a rank wants: abort, and destroy with work under way.
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

// A machine that is busy with other things may delay a thread once, not three times.
void expect_soon(const std::function<double()>& attempt) {
  constexpr double kSoon = kSanitized ? 1.0 : 0.1;
  double slowest = 0;
  for (int i = 0; i < 3; ++i)
    if ((slowest = attempt()) <= kSoon) return;
  ADD_FAILURE() << "took " << slowest << " s";
}

// Whatever they wait in, and however many they are.
TEST(Abort, WakesEveryThreadOfTheRankWithin100ms) {
  expect_soon([] {
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

TEST(Destroy, WithWorkInFlightTakesAtMost100ms) {
  expect_soon([] {
    double took = 0;
    run_ranks(2, [&](Rank& r) {
      floe_comm_info_t info = FLOE_COMM_INFO_INIT;
      ASSERT_FLOE_OK(floe_comm_info(r.comm, &info));
      if (info.direct == 0) return;  // to other hosts, what was sent is flushed first
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
