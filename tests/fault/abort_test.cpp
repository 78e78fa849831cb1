// Ends that a rank wants: abort, destroy with work under way; and a forked child that can't have any.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
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

// DataLoader workers are forked from ranks: they must neither hang nor harm.
TEST(Fork, ChildsHandlesAnswerAndTheParentGoesOn) {
  Processes(2, [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    const Rank& r = me.rank();
    Exercise(r, {.count = 1000}, 1).run();
    Request request;
    float value = 1;
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, &value, 1, FLOE_FLOAT32, FLOE_SUM, request.out()));

    const pid_t child = fork();
    if (child == 0) {
      floe_request_t* made = nullptr;
      floe_comm_t* comm = nullptr;
      float data = 0;
      EXPECT_EQ(FLOE_ERR_FORKED,
                floe_all_reduce(r.comm, FLOE_IN_PLACE, &data, 1, FLOE_FLOAT32, FLOE_SUM, nullptr));
      EXPECT_NE(std::string::npos, std::string(floe_last_error()).find("fork")) << floe_last_error();
      EXPECT_EQ(FLOE_ERR_FORKED, floe_send(r.comm, &data, 1, FLOE_FLOAT32, 1 - r.rank, 0, &made));
      EXPECT_EQ(FLOE_ERR_FORKED, floe_wait(request.get(), 0));
      EXPECT_EQ(FLOE_ERR_FORKED, floe_test(request.get()));
      EXPECT_EQ(FLOE_ERR_FORKED, floe_comm_abort(r.comm));
      EXPECT_EQ(FLOE_ERR_FORKED, floe_comm_create_from_env(r.context, nullptr, &comm));
      EXPECT_EQ(FLOE_ERR_FORKED, floe_comm_destroy(r.comm));
      EXPECT_EQ(FLOE_ERR_FORKED, floe_context_destroy(r.context));
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ASSERT_FLOE_OK(request.wait());
    EXPECT_EQ(2.0f, value);
    for (uint64_t seed = 1; seed < 50; ++seed) Exercise(r, {.count = seed * 1000}, seed).run();
  }).expect_success(60s);
}

// A child that ends through exit runs destructors and atexit handlers: none may touch the parent's world.
TEST(Fork, ChildThatExitsHarmsNothing) {
  Processes(2, [](uint32_t) {
    setenv("FLOE_WORKERS", "1", 1);
    Member me;
    ASSERT_FLOE_OK(me.status());
    Exercise(me.rank(), {.count = 1000}, 1).run();
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint64_t seed = 1; seed < 50; ++seed) Exercise(me.rank(), {.count = seed * 1000}, seed).run();
  }).expect_success(60s);
}

}  // namespace
}  // namespace floe::test
