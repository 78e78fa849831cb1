// floe_comm_shrink across hosts, which are pretended. What these processes find out about each other is what
// their control connections and libfabric tell them, as between real hosts.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "exercise.h"
#include "pretended_hosts.h"
#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

class ShrinkHosts : public PretendedHosts {};

uint32_t rank_without(const std::set<uint32_t>& victims, uint32_t rank) {
  uint32_t result = rank;
  for (const uint32_t victim : victims) result -= victim < rank ? 1 : 0;
  return result;
}

// Four ranks, `per_host` on each; kills `victims` while they reduce.
void kill_and_go_on(uint32_t per_host, const std::set<uint32_t>& victims) {
  constexpr uint32_t kRanks = 4;
  Processes processes(kRanks, [&](uint32_t rank) {
    move_to_host(rank / per_host);
    Member me;
    ASSERT_FLOE_OK(me.status());
    floe_comm_info_t info = FLOE_COMM_INFO_INIT;
    ASSERT_FLOE_OK(floe_comm_info(me.comm(), &info));
    ASSERT_EQ(per_host, info.local_size);
    std::vector<float> data(10'000);
    call_until_it_fails(rank, all_reduce_of(me.rank(), data));
    EXPECT_EQ(FLOE_ERR_PEER, Processes::report(rank).status) << Processes::report(rank).text.data();
    go_on(me, rank_without(victims, rank), static_cast<uint32_t>(kRanks - victims.size()));
  });
  ASSERT_TRUE(processes.wait_for_stage(10));
  for (const uint32_t victim : victims) processes.signal(victim, SIGKILL);
  const auto outcomes = processes.join(60s);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    if (!victims.contains(rank)) {
      EXPECT_EQ(0, outcomes[rank].exit_code) << "rank " << rank;
    }
  }
}

TEST_F(ShrinkHosts, AfterADeathTheOthersGoOn) { kill_and_go_on(1, {2}); }
TEST_F(ShrinkHosts, AfterTheCoordinatorsDeathTheOthersGoOn) { kill_and_go_on(1, {0}); }
TEST_F(ShrinkHosts, AfterTheDeathOfTheLastHostRankZerosGoesOn) { kill_and_go_on(2, {2, 3}); }
TEST_F(ShrinkHosts, OneLeftOnEachHostIsEnough) { kill_and_go_on(2, {0, 2}); }

TEST_F(ShrinkHosts, AfterAnAbortKeepsAll) {
  Processes(4, [](uint32_t rank) {
    move_to_host(rank / 2);
    Member me;
    ASSERT_FLOE_OK(me.status());
    if (rank == 3) {
      ASSERT_FLOE_OK(floe_comm_abort(me.comm()));
    }
    go_on(me, rank, 4);
    floe_comm_t* again = nullptr;
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_shrink(me.comm(), &again)) << "it has been shrunk already";
  }).expect_success(30s);
}

// Half of the hosts, without rank 0's, might be the other side of a broken network.
TEST_F(ShrinkHosts, WhoMayBeCutOffIsToldAndGetsNothing) {
  Processes processes(4, [](uint32_t rank) {
    move_to_host(rank / 2);
    Member me;
    ASSERT_FLOE_OK(me.status());
    std::vector<float> data(1000);
    call_until_it_fails(rank, all_reduce_of(me.rank(), data));
    floe_comm_t* fewer = nullptr;
    Processes::report(rank).note(floe_comm_shrink(me.comm(), &fewer));
    EXPECT_EQ(nullptr, fewer);
    expect_report(rank, FLOE_ERR_PEER, {"floe_comm_shrink", "rank 0 ", "rank 1 ", "2 hosts", "1 is left"});
  });
  ASSERT_TRUE(processes.wait_for_stage(10));
  for (const uint32_t victim : {0u, 1u}) processes.signal(victim, SIGKILL);
  const auto outcomes = processes.join(60s);
  for (const uint32_t rank : {2u, 3u}) EXPECT_EQ(0, outcomes[rank].exit_code) << "rank " << rank;
}

TEST_F(ShrinkHosts, LeavesOutWhoHasDestroyedItsHandle) {
  Processes(3, [](uint32_t rank) {
    move_to_host(rank);
    Member me;
    ASSERT_FLOE_OK(me.status());
    if (rank == 1) {
      ASSERT_FLOE_OK(floe_comm_abort(me.comm()));
      me.leave();
      while (Processes::report(0).stage < 2 || Processes::report(2).stage < 2)
        std::this_thread::sleep_for(1ms);  // alive all the time
      return;
    }
    EXPECT_EQ(FLOE_ERR_ABORTED, floe_barrier(me.comm(), nullptr));
    go_on(me, rank / 2, 2);
    Processes::report(rank).stage = 2;
  }).expect_success(30s);
}

// At whatever moment of the shrink its coordinator dies: the rest agree on who is left.
TEST_F(ShrinkHosts, SurvivesTheCoordinatorsDeathMeanwhile) {
  for (const int delay_us : {0, 1000, 3000, 10'000}) {
    Processes processes(4, [&](uint32_t rank) {
      move_to_host(rank / 2);
      Member me;
      ASSERT_FLOE_OK(me.status());
      floe_barrier(me.comm(), nullptr);  // a rank that is through it may have aborted the others' already
      if (rank == 0)
        std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
          kill(getpid(), SIGKILL);
        }).detach();
      floe_comm_t* comm = nullptr;
      const floe_status_t status = floe_comm_shrink(me.comm(), &comm);
      if (rank == 0) pause();
      ASSERT_EQ(FLOE_OK, status) << floe_last_error();
      go_on_without_one_more(me, comm, rank - 1, 3);
    });
    const auto outcomes = processes.join(60s);
    for (const uint32_t rank : {1u, 2u, 3u})
      EXPECT_EQ(0, outcomes[rank].exit_code) << delay_us << " us, " << rank;
  }
}

// A rank that lives and does not come is named, on all that did; when it comes, all can go on.
TEST_F(ShrinkHosts, NamesWhoDoesNotComeAndCanBeRepeated) {
  Processes(3, [](uint32_t rank) {
    move_to_host(rank);
    Member me;
    ASSERT_FLOE_OK(me.status());
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
    if (rank != 2) {
      ASSERT_FLOE_OK(floe_comm_set_timeout(me.comm(), 2500));
    }
    if (rank == 2) {
      while (Processes::report(0).status < 0 || Processes::report(1).status < 0)
        std::this_thread::sleep_for(1ms);
    } else {
      floe_comm_t* comm = nullptr;
      Processes::report(rank).note(floe_comm_shrink(me.comm(), &comm));
      EXPECT_EQ(nullptr, comm);
      expect_report(rank, FLOE_ERR_TIMEOUT, {"floe_comm_shrink", "rank 2"});
      ASSERT_FLOE_OK(floe_comm_set_timeout(me.comm(), 30'000));
    }
    go_on(me, rank, 3);
  }).expect_success(30s);
}

}  // namespace
}  // namespace floe::test
