// Memory runs out, at each allocation of a call in turn: an error on all ranks, and nothing that anybody
// waits for in vain.
#include <array>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <new>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ranks.h"

namespace {

constexpr int64_t kNever = -1;
// This thread's allocations that succeed before one fails, once.
thread_local int64_t left_before_failure = kNever;

}  // namespace

// Those of libfloe.so come here too. Not inlined, where GCC takes free() for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (left_before_failure != kNever && left_before_failure-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace floe::test {
namespace {

constexpr uint64_t kLarge = 300'000;

struct Call {
  const char* name;
  std::function<floe_status_t(Rank&, float* data)> run;
};

void PrintTo(const Call& call, std::ostream* out) { *out << call.name; }

floe_status_t wait_for(floe_request_t* request) {
  const floe_status_t status = floe_wait(request, FLOE_NO_TIMEOUT);
  floe_request_free(request);
  return status;
}

// Two operations under way at once.
floe_status_t two_at_once(Rank& r, float* data) {
  std::array<floe_request_t*, 2> requests{};
  floe_status_t status = floe_all_gather(r.comm, FLOE_IN_PLACE, data, 1000, FLOE_FLOAT32, &requests[0]);
  if (status == FLOE_OK)
    status = floe_broadcast(r.comm, data + kLarge, kLarge, FLOE_FLOAT32, 1, &requests[1]);
  for (floe_request_t* request : requests) {
    if (!request) continue;
    const floe_status_t ended = wait_for(request);
    if (status == FLOE_OK) status = ended;
  }
  return status;
}

floe_status_t message(Rank& r, float* data, uint64_t count) {
  if (r.rank == 0) return floe_send(r.comm, data, count, FLOE_FLOAT32, 1, 5, nullptr);
  return floe_recv(r.comm, data, count, FLOE_FLOAT32, FLOE_ANY_SOURCE, 5, nullptr);
}

std::vector<Call> calls() {
  const auto all_reduce = [](uint64_t count) {
    return [=](Rank& r, float* data) {
      return floe_all_reduce(r.comm, FLOE_IN_PLACE, data, count, FLOE_FLOAT32, FLOE_SUM, nullptr);
    };
  };
  const auto all_to_all_v = [](Rank& r, float* data) {
    const std::array<uint64_t, 2> counts = {7, 7};
    return floe_all_to_all_v(r.comm, FLOE_IN_PLACE, nullptr, nullptr, data, counts.data(), nullptr,
                             FLOE_FLOAT32, nullptr);
  };
  return {
      {"Barrier", [](Rank& r, float*) { return floe_barrier(r.comm, nullptr); }},
      {"AllReduce", all_reduce(4)},
      {"LargeAllReduce", all_reduce(kLarge)},
      {"ReduceScatter",
       [](Rank& r, float* data) {
         return floe_reduce_scatter(r.comm, data, data + kLarge, 1000, FLOE_FLOAT32, FLOE_SUM, nullptr);
       }},
      {"AllToAllV", all_to_all_v},
      {"TwoAtOnce", two_at_once},
      {"Split",
       [](Rank& r, float*) {
         floe_comm_t* half = nullptr;
         const floe_status_t status = floe_comm_split(r.comm, 0, 0, &half);
         const int64_t left = std::exchange(left_before_failure, kNever);
         if (half) floe_comm_destroy(half);
         left_before_failure = left;
         return status;
       }},
      {"Message", [](Rank& r, float* data) { return message(r, data, 10); }},
      {"LargeMessage", [](Rank& r, float* data) { return message(r, data, kLarge); }},
  };
}

class OutOfMemory : public testing::TestWithParam<Call> {};

// Not FLOE_ERR_TIMEOUT: somebody would have waited in vain.
bool may_be(floe_status_t status) {
  return status == FLOE_OK || status == FLOE_ERR_SYSTEM || status == FLOE_ERR_PEER;
}

// Whether an allocation of the victim failed.
bool fail_one(const Call& call, uint32_t victim, int64_t at) {
  bool failed = false;
  std::array<floe_status_t, 2> statuses{};
  std::array<std::string, 2> texts;
  std::barrier together(2);
  run_ranks(2, [&](Rank& r) {
    std::vector<float> data(3 * kLarge, 1.0f);
    together.arrive_and_wait();
    if (r.rank == victim) left_before_failure = at;
    const floe_status_t status = call.run(r, data.data());
    if (r.rank == victim) failed = std::exchange(left_before_failure, kNever) == kNever;
    statuses[r.rank] = status;
    texts[r.rank] = floe_last_error();
    // An error other than of an argument ends the communicator. In words, too.
    if (status != FLOE_OK) {
      EXPECT_NE(FLOE_OK, floe_barrier(r.comm, nullptr));
      EXPECT_NE("", texts[r.rank]);
    }
  });
  for (uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_TRUE(may_be(statuses[rank])) << "rank " << rank << ", allocation " << at << " of rank " << victim
                                        << ": " << floe_status_string(statuses[rank]) << ": " << texts[rank];
  return failed;
}

TEST_P(OutOfMemory, IsAnErrorOnAllRanks) {
  for (const uint32_t victim : {0, 1}) {
    int64_t allocation = 0;
    while (fail_one(GetParam(), victim, allocation) && !HasFailure()) ++allocation;
    RecordProperty("allocations_of_rank_" + std::to_string(victim), static_cast<int>(allocation));
  }
}

// What is under way when a communicator ends must end, too, whatever there is no memory for.
TEST(OutOfMemoryAtTheEnd, LeavesNobodyWaiting) {
  bool failed = true;
  std::barrier together(2);
  for (int64_t allocation = 0; failed && !HasFailure(); ++allocation)
    run_ranks(2, [&](Rank& r) {
      float data = 0;
      floe_request_t* request = nullptr;
      ASSERT_FLOE_OK(floe_recv(r.comm, &data, 1, FLOE_FLOAT32, FLOE_ANY_SOURCE, 5, &request));
      together.arrive_and_wait();
      if (r.rank == 0) {
        left_before_failure = allocation;
        const floe_status_t aborted = floe_comm_abort(r.comm);
        failed = std::exchange(left_before_failure, kNever) == kNever;
        if (aborted != FLOE_OK) {
          EXPECT_FLOE_OK(floe_comm_abort(r.comm)) << allocation;
        }
      }
      EXPECT_NE(FLOE_OK, wait_for(request)) << allocation;
    });
}

INSTANTIATE_TEST_SUITE_P(In, OutOfMemory, testing::ValuesIn(calls()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace floe::test
