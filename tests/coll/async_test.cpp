// Operations under way: requests, several at once, progress, callbacks.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "exercise.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

// Waits for what another thread does, without calling floe.
template <class F>
bool eventually(F&& condition) {
  const auto give_up = std::chrono::steady_clock::now() + 30s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

class Async : public testing::TestWithParam<uint32_t> {};

std::vector<std::unique_ptr<Exercise>> all_kinds(const Rank& r, uint64_t count) {
  std::vector<std::unique_ptr<Exercise>> list;
  uint64_t seed = count;
  for (int repeat = 0; repeat < 3; ++repeat)
    for (const auto collective : all_collectives()) {
      const Shape shape{collective, FLOE_INT32, FLOE_SUM, count + seed % 7, 0, seed % 2 == 0, seed % 4};
      list.push_back(std::make_unique<Exercise>(r, shape, seed++));
    }
  return list;
}

TEST_P(Async, SeveralOutstandingWaitedForInAnyOrder) {
  run_ranks(GetParam(), [](Rank& r) {
    for (const uint64_t count : {5, 3000, 120'000}) {
      auto exercises = all_kinds(r, count);
      std::vector<Request> requests(exercises.size());
      for (size_t i = 0; i < exercises.size(); ++i) ASSERT_FLOE_OK(exercises[i]->start(requests[i].out()));
      // Even ranks wait backwards, odd ones forwards.
      for (size_t i = 0; i < requests.size(); ++i)
        ASSERT_FLOE_OK(requests[r.rank % 2 ? i : requests.size() - 1 - i].wait());
      for (const auto& exercise : exercises) EXPECT_TRUE(exercise->check()) << count;
    }
  });
}

TEST_P(Async, TestingAloneCompletesThem) {
  run_ranks(GetParam(), [](Rank& r) {
    auto exercises = all_kinds(r, 50'000);
    std::vector<Request> requests(exercises.size());
    for (size_t i = 0; i < exercises.size(); ++i) ASSERT_FLOE_OK(exercises[i]->start(requests[i].out()));
    for (size_t i = 0; i < requests.size(); ++i) {
      floe_status_t status = FLOE_IN_PROGRESS;
      while ((status = floe_test(requests[i].get())) == FLOE_IN_PROGRESS) std::this_thread::yield();
      ASSERT_FLOE_OK(status);
      EXPECT_TRUE(exercises[i]->check());
    }
  });
}

// With a worker, ranks that make no further call still finish.
TEST_P(Async, AWorkerCompletesThemWithoutAnyCall) {
  run_ranks(GetParam(),
            [](Rank& r) {
              std::atomic<int> completed{0};
              auto exercises = all_kinds(r, 70'000);
              std::vector<Request> requests(exercises.size());
              for (size_t i = 0; i < exercises.size(); ++i) {
                ASSERT_FLOE_OK(exercises[i]->start(requests[i].out()));
                const auto count = [](void* user, floe_status_t status, const char* message) {
                  EXPECT_EQ(FLOE_OK, status) << message;
                  static_cast<std::atomic<int>*>(user)->fetch_add(1);
                };
                ASSERT_FLOE_OK(floe_request_on_complete(requests[i].get(), count, &completed));
              }
              EXPECT_TRUE(eventually([&] { return completed == static_cast<int>(requests.size()); }))
                  << completed;
              for (size_t i = 0; i < exercises.size(); ++i) {
                EXPECT_EQ(FLOE_OK, floe_test(requests[i].get()));
                EXPECT_TRUE(exercises[i]->check());
              }
            },
            {.workers = 1});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Async, testing::Values(1, 2, 3, 4, 8));

TEST(Wait, ReturnsInProgressWhenItsTimeIsUpAndTheRequestStaysValid) {
  std::atomic<bool> rank_0_has_waited{false};
  run_ranks(2, [&](Rank& r) {
    if (r.rank == 1) {
      ASSERT_TRUE(eventually([&] { return rank_0_has_waited.load(); }));
    }
    Exercise exercise(r, {.count = 1000}, 1);
    Request request;
    ASSERT_FLOE_OK(exercise.start(request.out()));
    if (r.rank == 0) {
      EXPECT_EQ(FLOE_IN_PROGRESS, floe_test(request.get()));
      EXPECT_EQ(FLOE_IN_PROGRESS, floe_wait(request.get(), 0));
      EXPECT_EQ(FLOE_IN_PROGRESS, floe_wait(request.get(), 30));
      rank_0_has_waited = true;
    }
    ASSERT_FLOE_OK(request.wait());
    ASSERT_FLOE_OK(request.wait()) << "a second time";
    EXPECT_TRUE(exercise.check());
  });
}

TEST(Request, FreedBeforeCompletionGoesOn) {
  run_ranks(2, [](Rank& r) {
    Exercise first(r, {.count = 200'000}, 1), second(r, {.count = 10}, 2);
    floe_request_t* request = nullptr;
    ASSERT_FLOE_OK(first.start(&request));
    ASSERT_FLOE_OK(floe_request_free(request));
    second.run();  // behind the first: when it is done, so is that
    EXPECT_TRUE(first.check());
  });
}

TEST(Request, CallbackRunsOnceAndOnlyOneIsAllowed) {
  run_ranks(2, [](Rank& r) {
    std::atomic<int> calls{0};
    const auto count = [](void* user, floe_status_t, const char*) {
      ++*static_cast<std::atomic<int>*>(user);
    };
    Exercise exercise(r, {.count = 500}, 1);
    Request request;
    ASSERT_FLOE_OK(exercise.start(request.out()));
    ASSERT_FLOE_OK(floe_request_on_complete(request.get(), count, &calls));
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_request_on_complete(request.get(), count, &calls));
    ASSERT_FLOE_OK(request.wait());
    EXPECT_EQ(1, calls);
  });
}

TEST(Request, CallbackOfACompleteOneRunsAtOnce) {
  run_ranks(2, [](Rank& r) {
    Request request;
    ASSERT_FLOE_OK(floe_barrier(r.comm, request.out()));
    ASSERT_FLOE_OK(request.wait());
    int calls = 0;
    const auto count = [](void* user, floe_status_t, const char*) { ++*static_cast<int*>(user); };
    ASSERT_FLOE_OK(floe_request_on_complete(request.get(), count, &calls));
    EXPECT_EQ(1, calls);
  });
}

TEST(Request, CallbackMayFreeItsRequest) {
  run_ranks(2, [](Rank& r) {
    struct State {
      floe_request_t* request = nullptr;
      std::atomic<bool> freed{false};
    } state;
    Exercise exercise(r, {.count = 500}, 1);
    ASSERT_FLOE_OK(exercise.start(&state.request));
    const auto release = [](void* user, floe_status_t, const char*) {
      auto* s = static_cast<State*>(user);
      EXPECT_EQ(FLOE_OK, floe_request_free(s->request));
      s->freed = true;
    };
    ASSERT_FLOE_OK(floe_request_on_complete(state.request, release, &state));
    ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
    EXPECT_TRUE(state.freed);
    EXPECT_TRUE(exercise.check());
  });
}

// Whoever waits progresses the whole context: otherwise each rank waits for what the other does not do.
TEST(Progress, TwoCommunicatorsWaitedForInOppositeOrder) {
  MemoryStore store;
  run_ranks(2, [&](Rank& r) {
    Rank other = r;
    other.comm = create_comm(r.context, r.rank, r.size, "other", store);
    ASSERT_NE(nullptr, other.comm);
    for (const uint64_t count : {1, 5000, 400'000}) {
      Exercise a(r, {.count = count}, 1), b(other, {.count = count}, 2);
      Request of_a, of_b;
      ASSERT_FLOE_OK(a.start(of_a.out()));
      ASSERT_FLOE_OK(b.start(of_b.out()));
      ASSERT_FLOE_OK(r.rank == 0 ? of_a.wait() : of_b.wait());
      ASSERT_FLOE_OK(r.rank == 0 ? of_b.wait() : of_a.wait());
      EXPECT_TRUE(a.check());
      EXPECT_TRUE(b.check());
    }
    EXPECT_FLOE_OK(floe_comm_destroy(other.comm));
  });
}

// Also when the calls block: rank 0 is inside the first communicator, rank 1 inside the second.
TEST(Progress, BlockingCallsAdvanceOtherCommunicators) {
  MemoryStore store;
  run_ranks(2, [&](Rank& r) {
    Rank other = r;
    other.comm = create_comm(r.context, r.rank, r.size, "other", store);
    ASSERT_NE(nullptr, other.comm);
    const Rank& first = r.rank == 0 ? r : other;
    const Rank& second = r.rank == 0 ? other : r;
    Exercise later(second, {.count = 300'000}, 2), now(first, {.count = 300'000}, 2);
    Request request;
    ASSERT_FLOE_OK(later.start(request.out()));
    now.run();
    ASSERT_FLOE_OK(request.wait());
    EXPECT_TRUE(later.check());
    EXPECT_FLOE_OK(floe_comm_destroy(other.comm));
  });
}

// Threads of one rank may wait for different requests at the same time.
TEST(Progress, ThreadsWaitForDifferentRequests) {
  run_ranks(2, [](Rank& r) {
    auto exercises = all_kinds(r, 30'000);
    std::vector<Request> requests(exercises.size());
    for (size_t i = 0; i < exercises.size(); ++i) ASSERT_FLOE_OK(exercises[i]->start(requests[i].out()));
    std::vector<std::thread> waiters;
    for (size_t first = 0; first < 3; ++first)
      waiters.emplace_back([&, first] {
        for (size_t i = first; i < requests.size(); i += 3) EXPECT_FLOE_OK(requests[i].wait());
      });
    for (auto& waiter : waiters) waiter.join();
    for (const auto& exercise : exercises) EXPECT_TRUE(exercise->check());
  });
}

}  // namespace
}  // namespace floe::test
