// Ends that a rank wants: abort, and destroy with work under way.
#include <chrono>
#include <thread>

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

}  // namespace
}  // namespace floe::test
