// floe_comm_shrink: after a death or an abort the ranks that live go on without the others, all with the same
// ranks, or all with an error.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "exercise.h"
#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kRanks = 4;

TEST(Shrink, AfterADeathTheOthersGoOn) {
  for (const uint32_t victim : {0u, 2u}) {
    Processes processes(kRanks, [&](uint32_t rank) {
      const size_t descriptors = open_descriptors();
      {
        Member me;
        ASSERT_FLOE_OK(me.status());
        std::vector<float> data(10'000);
        call_until_it_fails(rank, all_reduce_of(me.rank(), data));
        EXPECT_EQ(FLOE_ERR_PEER, Processes::report(rank).status) << Processes::report(rank).text.data();
        go_on(me, rank - (rank > victim ? 1 : 0), kRanks - 1);
      }
      EXPECT_LE(open_descriptors(), descriptors);
    });
    ASSERT_TRUE(processes.wait_for_stage(10));
    processes.signal(victim, SIGKILL);
    processes.expect_success(40s, victim);
  }
}

// From the death to the new communicator.
TEST(Shrink, TakesTwoSecondsAtMost) {
  expect_within(kSanitized ? 20.0 : 2.0, [] {
    constexpr uint32_t kVictim = 2;
    Processes processes(kRanks, [](uint32_t rank) {
      Member me;
      ASSERT_FLOE_OK(me.status());
      std::vector<float> data(10'000);
      call_until_it_fails(rank, all_reduce_of(me.rank(), data));
      floe_comm_t* fewer = nullptr;
      ASSERT_FLOE_OK(floe_comm_shrink(me.comm(), &fewer));
      Processes::report(rank).at = steady_seconds();
      EXPECT_EQ(kRanks - 1, described(me.rank(), fewer).size);
      EXPECT_FLOE_OK(floe_comm_destroy(fewer));
    });
    EXPECT_TRUE(processes.wait_for_stage(10));
    const double killed = steady_seconds();
    processes.signal(kVictim, SIGKILL);
    processes.expect_success(40s, kVictim);
    double last = killed;
    for (const uint32_t rank : {0, 1, 3}) last = std::max(last, Processes::report(rank).at.load());
    return last - killed;
  });
}

// One after the other, down to one rank.
TEST(Shrink, AgainAndAgain) {
  Processes(kRanks, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    floe_comm_t* comm = me.comm();
    for (uint32_t size = kRanks; size > 1; --size) {
      const Rank r = described(me.rank(), comm);
      ASSERT_EQ(size, r.size);
      ASSERT_EQ(rank, r.rank);
      use(r);
      if (rank == size - 1) _exit(testing::Test::HasFailure() ? 1 : 0);
      std::vector<float> data(1000);
      EXPECT_EQ(FLOE_ERR_PEER, all_reduce_of(r, data)()) << floe_last_error();
      floe_comm_t* fewer = nullptr;
      ASSERT_FLOE_OK(floe_comm_shrink(comm, &fewer));
      if (comm != me.comm()) {
        EXPECT_FLOE_OK(floe_comm_destroy(comm));
      }
      comm = fewer;
    }
    use(described(me.rank(), comm));
    EXPECT_FLOE_OK(floe_comm_destroy(comm));
  }).expect_success(40s);
}

// All live: after an abort they are all there again. Ranks as threads, too.
TEST(Shrink, AfterAnAbortKeepsAll) {
  run_ranks(3, [](Rank& r) {
    if (r.rank == 1) {
      ASSERT_FLOE_OK(floe_comm_abort(r.comm));
    }
    floe_comm_t* again = nullptr;
    ASSERT_FLOE_OK(floe_comm_shrink(r.comm, &again));
    EXPECT_EQ(FLOE_ERR_ABORTED, floe_barrier(r.comm, nullptr)) << "the old one stays what it is";
    const Rank mine = described(r, again);
    EXPECT_EQ(3u, mine.size);
    EXPECT_EQ(r.rank, mine.rank);
    use(mine);
    EXPECT_FLOE_OK(floe_comm_destroy(again));
  });
}

TEST(Shrink, LeavesOutWhoHasDestroyedItsHandle) {
  Processes(3, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    Processes::report(rank).stage = 1;
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

// At whatever moment of the shrink another one dies: the rest agree on who is left.
TEST(Shrink, SurvivesADeathMeanwhile) {
  for (const int delay_us : {0, 100, 500, 1000, 2000, 5000, 10'000, 30'000}) {
    constexpr uint32_t kFirst = 3, kSecond = 1;
    Processes processes(kRanks, [&](uint32_t rank) {
      Member me;
      ASSERT_FLOE_OK(me.status());
      std::vector<float> data(1000);
      ASSERT_FLOE_OK(all_reduce_of(me.rank(), data)());
      if (rank == kFirst) kill(getpid(), SIGKILL);
      call_until_it_fails(rank, all_reduce_of(me.rank(), data));
      if (rank == kSecond)
        std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
          kill(getpid(), SIGKILL);
        }).detach();
      floe_comm_t* comm = nullptr;
      const floe_status_t status = floe_comm_shrink(me.comm(), &comm);
      if (rank == kSecond) pause();
      ASSERT_EQ(FLOE_OK, status) << floe_last_error();
      go_on_without_one_more(me, comm, rank / 2, 2);
    });
    const auto outcomes = processes.join(40s);
    for (const uint32_t rank : {0u, 2u})
      EXPECT_EQ(0, outcomes[rank].exit_code) << delay_us << " us, " << rank;
  }
}

// A rank that lives and does not come is named, on all that did; when it comes, all can go on.
TEST(Shrink, NamesWhoDoesNotComeAndCanBeRepeated) {
  Processes(3, [](uint32_t rank) {
    Member me(1500);
    ASSERT_FLOE_OK(me.status());
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
    if (rank == 2) {
      while (Processes::report(0).status < 0 || Processes::report(1).status < 0)
        std::this_thread::sleep_for(1ms);
    } else {
      floe_comm_t* comm = nullptr;
      Processes::report(rank).note(floe_comm_shrink(me.comm(), &comm));
      EXPECT_EQ(nullptr, comm);
      expect_report(rank, FLOE_ERR_TIMEOUT, {"floe_comm_shrink", "rank 2"});
    }
    go_on(me, rank, 3);
  }).expect_success(30s);
}

TEST(Shrink, RefusesWhatCannotBe) {
  run_ranks(1, [](Rank& r) {
    floe_comm_t* again = nullptr;
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_shrink(r.comm, nullptr));
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_shrink(nullptr, &again));
    ASSERT_FLOE_OK(floe_comm_shrink(r.comm, &again)) << "one rank survives itself";
    use(described(r, again));
    EXPECT_FLOE_OK(floe_comm_destroy(again));
  });
}

}  // namespace
}  // namespace floe::test
