// Ranks that sleep for each other where the kernel has membarrier(2), refuses it to one, or comes to do so:
// see shm/bell.h.
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "forbid.h"
#include "processes.h"

namespace floe::test {
namespace {

// Calls by the thread of this process that has called count_membarrier(), of which none succeeds.
std::atomic<int> calls{0};

void count_membarrier() {
  struct sigaction action {};
  action.sa_handler = [](int) { calls.fetch_add(1, std::memory_order_relaxed); };
  ASSERT_EQ(0, ::sigaction(SIGSYS, &action, nullptr));
  ASSERT_TRUE(forbid(SYS_membarrier, SECCOMP_RET_TRAP));
}

// The ranks are late in turn, for longer than who waits stays awake.
void sleep_for_each_other(const Member& me) {
  constexpr int kTurns = 20;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (turn % 2 == static_cast<int>(me.rank().rank))
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    float value = 1;
    ASSERT_FLOE_OK(floe_all_reduce(me.comm(), FLOE_IN_PLACE, &value, 1, FLOE_FLOAT32, FLOE_SUM, nullptr));
    ASSERT_EQ(2, value) << "turn " << turn;
  }
}

bool stay_on_first_cpu() {
  cpu_set_t cpus, first;
  CPU_ZERO(&first);
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return false;
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&first) == 0; ++cpu)
    if (CPU_ISSET(cpu, &cpus)) CPU_SET(cpu, &first);
  return ::sched_setaffinity(0, sizeof(first), &first) == 0;
}

class Sleep : public testing::Test {
 protected:
  void SetUp() override {
    cpu_set_t cpus;
    ASSERT_EQ(0, ::sched_getaffinity(0, sizeof(cpus), &cpus));
    const char* shm = std::getenv("FLOE_SHM");
    const long known = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (known < 0 || (known & MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0 || CPU_COUNT(&cpus) < 2 ||
        (shm && shm == std::string_view("off")))
      GTEST_SKIP() << "no sleeper has others fence here";
  }
};

// With a CPU each, or all on one.
class SleepOnCpus : public Sleep, public testing::WithParamInterface<bool> {};

TEST_P(SleepOnCpus, EndsAlsoOnceARankIsRefusedToHaveOthersFence) {
  Processes(2, [](uint32_t rank) {
    if (GetParam()) {
      ASSERT_TRUE(stay_on_first_cpu());
    }
    Member me;
    ASSERT_FLOE_OK(me.status());
    sleep_for_each_other(me);
    if (rank == 1) count_membarrier();
    // Beside others that compute a rank asks its peer to fence instead, until they end.
    constexpr int kMostRounds = 10;
    float refused = 0;
    for (int round = 0; round < kMostRounds && refused == 0; ++round) {
      sleep_for_each_other(me);
      refused = static_cast<float>(calls.load());
      ASSERT_FLOE_OK(floe_all_reduce(me.comm(), FLOE_IN_PLACE, &refused, 1, FLOE_FLOAT32, FLOE_MAX, nullptr));
    }
    EXPECT_LT(0, refused);
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(Shared, SleepOnCpus, testing::Bool());

TEST_F(Sleep, HasNobodyElseFenceWhereOneRankCannot) {
  Processes(2, [](uint32_t rank) {
    if (rank == 0) {
      ASSERT_TRUE(forbid(SYS_membarrier));
    }
    Member me;
    ASSERT_FLOE_OK(me.status());
    if (rank == 1) count_membarrier();
    sleep_for_each_other(me);
    EXPECT_EQ(0, calls.load());
  }).expect_success();
}

}  // namespace
}  // namespace floe::test
