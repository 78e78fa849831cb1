// A process dies on another host: all ranks of all hosts name it within a second. The hosts are pretended.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "pretended_hosts.h"
#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kRanks = 4;
constexpr double kNoticed = kSanitized ? 10.0 : 1.0;
constexpr uint64_t kOver = UINT64_MAX;

class Hosts : public PretendedHosts {
 protected:
  // From the kill to the last survivor's error.
  double kill(uint32_t per_host, uint32_t victim, const std::function<void(Member&)>& live,
              const std::vector<uint32_t>& witnesses) {
    Processes processes(kRanks, [&](uint32_t rank) {
      move_to_host(rank / per_host);
      const size_t descriptors = open_descriptors();
      {
        Member me;
        ASSERT_FLOE_OK(me.status());
        live(me);
        while (Processes::report(victim).stage != kOver) std::this_thread::sleep_for(1ms);
      }
      EXPECT_LE(open_descriptors(), descriptors);
    });
    EXPECT_TRUE(processes.wait_for_stage(1));
    const double killed = steady_seconds();
    processes.signal(victim, SIGKILL);
    double slowest = 0;
    for (const uint32_t rank : witnesses) {
      const double give_up = killed + 40;
      while (Processes::report(rank).status < 0 && steady_seconds() < give_up)
        std::this_thread::sleep_for(1ms);
      expect_report(rank, FLOE_ERR_PEER,
                    {"rank " + std::to_string(victim) + " (host ",
                     "pid " + std::to_string(processes.pid(victim)), "died"});
      slowest = std::max(slowest, Processes::report(rank).at - killed);
    }
    Processes::report(victim).stage = kOver;
    processes.expect_success(30s, victim);
    return slowest;
  }

  void expect_noticed(uint32_t per_host, uint32_t victim, const std::function<void(Member&)>& live,
                      std::vector<uint32_t> witnesses = {0, 1, 2, 3}) {
    std::erase(witnesses, victim);
    expect_within(kNoticed, [&] { return kill(per_host, victim, live, witnesses); });
  }
};

void reduce(Member& me) {
  std::vector<float> data(10'000);
  call_until_it_fails(me.rank().rank, all_reduce_of(me.rank(), data));
}

TEST_F(Hosts, TheOnlyRankOfOne) { expect_noticed(1, 2, reduce); }
TEST_F(Hosts, TheOnlyRankOfTheFirst) { expect_noticed(1, 0, reduce); }
TEST_F(Hosts, TheFirstRankOfOne) { expect_noticed(2, 2, reduce); }
TEST_F(Hosts, AnotherRankOfOne) { expect_noticed(2, 3, reduce); }

// Its connections are open in the child, which lives on, but for those that tell of its death.
TEST_F(Hosts, WithAForkedChild) {
  const auto live = [](Member& me) {
    if (me.rank().rank == 2 && fork() == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      for (int i = 0; i < 600 && Processes::report(2).stage != kOver; ++i) std::this_thread::sleep_for(100ms);
      _exit(0);
    }
    reduce(me);
  };
  expect_noticed(1, 2, live);
}

// The one that could tell of it is not inside floe.
TEST_F(Hosts, WhileItsNeighbourComputes) {
  const auto live = [](Member& me) {
    const uint32_t rank = me.rank().rank;
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
    Processes::report(rank).stage = 1;
    char byte = 0;
    if (rank >= 2)
      while (Processes::report(3).stage != kOver) std::this_thread::sleep_for(1ms);
    else
      Processes::report(rank).note(floe_recv(me.comm(), &byte, 1, FLOE_UINT8, 3, 7, nullptr));
  };
  expect_noticed(2, 3, live, {0, 1});
}

TEST_F(Hosts, InACommunicatorOfAFewOfThem) {
  const auto live = [](Member& me) {
    floe_comm_t* odd = nullptr;
    const uint32_t rank = me.rank().rank;
    const size_t before = open_descriptors();
    ASSERT_FLOE_OK(floe_comm_split(me.comm(), static_cast<int32_t>(rank % 2), 0, &odd));
    EXPECT_EQ(before, open_descriptors()) << "it uses the connections that there are";
    float value = 1;
    call_until_it_fails(rank, [&] {
      return floe_all_reduce(odd, FLOE_IN_PLACE, &value, 1, FLOE_FLOAT32, FLOE_MAX, nullptr);
    });
    EXPECT_FLOE_OK(floe_comm_destroy(odd));
  };
  // Rank 3 is rank 1 of its communicator, and dies; rank 1, of the other host, is its only witness.
  if (geteuid() != 0) return;
  Processes processes(kRanks, [&](uint32_t rank) {
    move_to_host(rank / 2);
    Member me;
    ASSERT_FLOE_OK(me.status());
    if (rank % 2 == 1) return live(me);
    floe_comm_t* even = nullptr;
    ASSERT_FLOE_OK(floe_comm_split(me.comm(), 0, 0, &even));
    Processes::report(rank).stage = 1;
    while (Processes::report(1).status < 0) std::this_thread::sleep_for(1ms);
    ASSERT_FLOE_OK(floe_barrier(even, nullptr)) << "nobody of it has died";
    EXPECT_FLOE_OK(floe_comm_destroy(even));
  });
  ASSERT_TRUE(processes.wait_for_stage(1));
  const std::string pid = "pid " + std::to_string(processes.pid(3));
  const double killed = steady_seconds();
  processes.signal(3, SIGKILL);
  processes.expect_success(30s, 3);
  expect_report(1, FLOE_ERR_PEER, {"rank 1 (host ", pid, "died"});
  EXPECT_LT(Processes::report(1).at - killed, 10 * kNoticed);
}

// As their shared memory can't be made, all go over libfabric: there is no pidfd, and a control connection
// that the hosts have does not tell of a neighbour. Only rank 2 waits for rank 3.
void receive_without_shared_memory(Member& me) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit less_than_a_segment{4096, RLIM_INFINITY};
  ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &less_than_a_segment));
  floe_comm_t* apart = nullptr;
  ASSERT_FLOE_OK(floe_comm_split(me.comm(), 0, 0, &apart));
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  ASSERT_FLOE_OK(floe_comm_info(apart, &info));
  ASSERT_EQ(1, info.local_size);
  ASSERT_FLOE_OK(floe_barrier(apart, nullptr));
  const uint32_t rank = me.rank().rank;
  Processes::report(rank).stage = 1;
  char byte = 0;
  if (rank == 2) Processes::report(rank).note(floe_recv(apart, &byte, 1, FLOE_UINT8, 3, 7, nullptr));
  while (Processes::report(3).stage != kOver) std::this_thread::sleep_for(1ms);
  EXPECT_FLOE_OK(floe_comm_destroy(apart));
}

TEST_F(Hosts, AllOnOneWithoutSharedMemory) { expect_noticed(4, 3, receive_without_shared_memory, {2}); }
TEST_F(Hosts, TwoOnOneWithoutSharedMemory) { expect_noticed(2, 3, receive_without_shared_memory, {2}); }

// Leaving is no death, whatever the others do later.
TEST_F(Hosts, WhoLeavesHasNotDied) {
  Processes(kRanks, [](uint32_t rank) {
    move_to_host(rank / 2);
    Member me;
    ASSERT_FLOE_OK(me.status());
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
    if (rank >= 2) return;  // a whole host leaves
    std::this_thread::sleep_for(500ms);
    char byte = 0;
    EXPECT_EQ(FLOE_ERR_PEER, floe_recv(me.comm(), &byte, 1, FLOE_UINT8, 2 + rank, 7, nullptr));
    const std::string text = floe_last_error();
    EXPECT_NE(text.npos, text.find("left the communicator")) << text;
  }).expect_success(30s);
}

}  // namespace
}  // namespace floe::test
