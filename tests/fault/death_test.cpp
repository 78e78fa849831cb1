// A rank dies or leaves: the others hear of it within a second, all name the same culprit, and nothing of
// floe stays behind.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kRanks = 4, kVictim = 2;
// What the design promises; sanitizers slow everything down.
constexpr double kNoticed = kSanitized ? 10.0 : 1.0;

// The survivors stay: none may learn of the death from another one's exit.
void wait_for_the_end() {
  while (Processes::report(0).stage.load() != UINT64_MAX) std::this_thread::sleep_for(1ms);
}
void let_them_end() { Processes::report(0).stage = UINT64_MAX; }

bool all_reported(uint32_t ranks, uint32_t except) {
  const double give_up = steady_seconds() + 40;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    while (rank != except && Processes::report(rank).status < 0) {
      if (steady_seconds() > give_up) return false;
      std::this_thread::sleep_for(1ms);
    }
  return true;
}

// Every survivor's report says this; returns how long the slowest took.
double expect_survivors_know(double since, const std::vector<std::string>& words) {
  double slowest = 0;
  EXPECT_TRUE(all_reported(kRanks, kVictim)) << "some rank still waits";
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    if (rank == kVictim) continue;
    expect_report(rank, FLOE_ERR_PEER, words);
    slowest = std::max(slowest, Processes::report(rank).at - since);
  }
  return slowest;
}

// One attempt: the time from the kill to the last survivor's error.
double kill_the_victim(const std::function<void(Member&)>& live, uint64_t stage,
                       std::vector<std::string> words) {
  Processes processes(kRanks, [&](uint32_t) {
    const size_t descriptors = open_descriptors();
    {
      Member me;
      ASSERT_FLOE_OK(me.status());
      live(me);
      // It stays what it is: every later call says the same.
      EXPECT_EQ(FLOE_ERR_PEER, floe_barrier(me.comm(), nullptr));
      EXPECT_NE(std::string::npos, std::string(floe_last_error()).find("rank 2")) << floe_last_error();
      wait_for_the_end();
    }
    EXPECT_LE(open_descriptors(), descriptors);
  });
  words.push_back("rank 2");
  words.push_back("pid " + std::to_string(processes.pid(kVictim)));
  EXPECT_TRUE(processes.wait_for_stage(stage));
  const double killed = steady_seconds();
  processes.signal(kVictim, SIGKILL);
  const double slowest = expect_survivors_know(killed, words);
  let_them_end();
  processes.expect_success(30s, kVictim);
  EXPECT_THAT(processes.left_in_shared_memory(), testing::IsEmpty());
  return slowest;
}

// A machine that is busy with other things may delay the ranks once, not three times.
void expect_noticed(const std::function<void(Member&)>& live, uint64_t stage,
                    const std::vector<std::string>& words) {
  double slowest = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    slowest = kill_the_victim(live, stage, words);
    if (slowest <= kNoticed || testing::Test::HasFailure()) return;
  }
  ADD_FAILURE() << "the last survivor noticed after " << slowest << " s";
}

class KilledInAStream : public testing::TestWithParam<size_t> {};

TEST_P(KilledInAStream, IsNamedByAllOthersWithinASecond) {
  const auto live = [](Member& me) {
    std::vector<float> data(GetParam());
    call_until_it_fails(me.rank().rank, all_reduce_of(me.rank(), data));
  };
  expect_noticed(live, 20, {"all_reduce"});
}

INSTANTIATE_TEST_SUITE_P(Elements, KilledInAStream, testing::Values(2, 5000, 1'000'000));

void meet(Member& me) {
  ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
  Processes::report(me.rank().rank).stage = 1;
  if (me.rank().rank == kVictim) pause();
}

// While the others wait for it, rather than in the middle of its own call.
TEST(Killed, WhileTheOthersWait) {
  const auto live = [](Member& me) {
    meet(me);
    std::vector<float> data(100'000);
    call_until_it_fails(me.rank().rank, all_reduce_of(me.rank(), data));
  };
  expect_noticed(live, 1, {"all_reduce"});
}

TEST(Killed, WhileAReceiveFromItWaits) {
  const auto live = [](Member& me) {
    meet(me);
    char byte = 0;
    Processes::report(me.rank().rank).note(floe_recv(me.comm(), &byte, 1, FLOE_UINT8, kVictim, 0, nullptr));
  };
  expect_noticed(live, 1, {"recv"});
}

// Round the ring: one may be reading the memory of the one that dies.
TEST(Killed, WhileLongMessagesGoRound) {
  const auto live = [](Member& me) {
    constexpr size_t kBytes = 3'000'000;
    const Rank& r = me.rank();
    const uint32_t next = (r.rank + 1) % r.size, previous = (r.rank + r.size - 1) % r.size;
    const std::vector<uint8_t> out(kBytes, 1);
    std::vector<uint8_t> in(kBytes);
    call_until_it_fails(r.rank, [&] {
      return floe_sendrecv(r.comm, out.data(), kBytes, next, 0, in.data(), kBytes, previous, 0, FLOE_UINT8);
    });
  };
  expect_noticed(live, 20, {});
}

// Descriptors that a child inherited keep sockets and pipes open: they say nothing about the parent.
TEST(Killed, WithAForkedChildThatLives) {
  const auto live = [](Member& me) {
    const pid_t parent = getpid();
    if (me.rank().rank == kVictim && fork() == 0) {
      while (getppid() == parent) std::this_thread::sleep_for(5ms);
      std::this_thread::sleep_for(std::chrono::duration<double>(2 * kNoticed));
      _exit(0);
    }
    std::vector<float> data(1000);
    call_until_it_fails(me.rank().rank, all_reduce_of(me.rank(), data));
  };
  expect_noticed(live, 5, {"all_reduce"});
}

TEST(Killed, AllAtOnceLeaveNothing) {
  Processes processes(kRanks, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    std::vector<float> data(300'000);
    call_until_it_fails(rank, all_reduce_of(me.rank(), data));
  });
  ASSERT_TRUE(processes.wait_for_stage(5));
  for (uint32_t rank = 0; rank < kRanks; ++rank) processes.signal(rank, SIGKILL);
  processes.join();
  EXPECT_THAT(processes.left_in_shared_memory(), testing::IsEmpty());
}

// The time that the slowest survivor took to know.
double kill_during_creation(uint64_t timeout_ms, std::chrono::milliseconds delay) {
  double slowest = 0;
  {
    Processes processes(kRanks, [&](uint32_t rank) {
      if (rank == kVictim)
        std::thread([&] {
          std::this_thread::sleep_for(delay);
          kill(getpid(), SIGKILL);
        }).detach();
      const double begin = steady_seconds();
      Member me(timeout_ms);
      floe_status_t status = me.status();
      while (status == FLOE_OK) status = floe_barrier(me.comm(), nullptr);
      Processes::report(rank).note(status);
      Processes::report(rank).at = steady_seconds() - begin;
    });
    EXPECT_TRUE(all_reported(kRanks, kVictim)) << delay.count();
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank == kVictim) continue;
      const Report& report = Processes::report(rank);
      EXPECT_TRUE(report.status == FLOE_ERR_PEER || report.status == FLOE_ERR_STORE)
          << delay.count() << " ms, rank " << rank << ": " << report.text.data();
      EXPECT_THAT(report.text.data(), testing::ContainsRegex("ranks? ([0-9], )*2"));
    }
    processes.expect_success(30s, kVictim);
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      if (rank != kVictim) slowest = std::max(slowest, Processes::report(rank).at.load());
    EXPECT_THAT(processes.left_in_shared_memory(), testing::IsEmpty());
  }
  return slowest;
}

// At whatever moment of the creation: the others end by its deadline, and say who is missing.
TEST(Killed, DuringCreation) {
  constexpr uint64_t kTimeout = 3000;
  constexpr double kGrace = 0.7;  // rank 0 keeps its store for those that started later
  // Over libfabric the last ones come when the others have a group already, and wait for all to be ready.
  for (const auto delay : {0ms, 1ms, 3ms, 10ms, 30ms, 200ms, 320ms, 400ms})
    expect_within(kTimeout / 1e3 + kGrace, [&] { return kill_during_creation(kTimeout, delay); });
}

void expect_it_left(const std::function<void(Member&)>& leave) {
  Processes processes(kRanks, [&](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    std::vector<float> data(1000);
    const auto call = all_reduce_of(me.rank(), data);
    for (int i = 0; i < 10; ++i) ASSERT_FLOE_OK(call());
    if (rank == kVictim) return leave(me);
    call_until_it_fails(rank, call);
    wait_for_the_end();
  });
  expect_survivors_know(0, {"rank 2", "all_reduce"});
  let_them_end();
  processes.expect_success(30s);
}

TEST(Left, ByDestroyingItsCommunicator) {
  expect_it_left([](Member& me) {
    me.leave();
    std::this_thread::sleep_for(3s);  // it is the leaving that is noticed, not the end of the process
  });
  for (const uint32_t rank : {0, 1, 3}) expect_report(rank, FLOE_ERR_PEER, {"left"});
}

TEST(Left, ByExitingWithoutAWord) {
  expect_it_left([](Member&) { _exit(0); });
}

// What has been said by a rank before it left still counts.
TEST(Left, AfterTheLastCollectiveIsNoError) {
  for (int i = 0; i < 20; ++i)
    Processes(kRanks, [](uint32_t) {
      Member me;
      ASSERT_FLOE_OK(me.status());
      std::vector<float> data(200'000);
      for (int call = 0; call < 3; ++call) ASSERT_FLOE_OK(all_reduce_of(me.rank(), data)());
      me.leave();
    }).expect_success(30s);
}

// A root need not wait for those that read what it has published.
TEST(Left, AfterABroadcastAllHaveIt) {
  for (const size_t count : {2, 250'000})
    Processes(kRanks, [&](uint32_t rank) {
      Member me;
      ASSERT_FLOE_OK(me.status());
      std::vector<float> data(count, rank == 0 ? 7.0f : 0.0f);
      if (rank != 0) std::this_thread::sleep_for(100ms * rank);
      ASSERT_FLOE_OK(floe_broadcast(me.comm(), data.data(), count, FLOE_FLOAT32, 0, nullptr));
      EXPECT_EQ(std::vector<float>(count, 7.0f), data);
      me.leave();
    }).expect_success(30s);
}

TEST(Left, AfterSendingItsMessageIsReceivedAll) {
  Processes(2, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    std::vector<uint8_t> data(rank == 0 ? 500 : 1000, 7);
    if (rank == 0) {
      ASSERT_FLOE_OK(floe_send(me.comm(), data.data(), data.size(), FLOE_UINT8, 1, 0, nullptr));
      return;
    }
    std::this_thread::sleep_for(300ms);
    ASSERT_FLOE_OK(floe_recv(me.comm(), data.data(), data.size(), FLOE_UINT8, 0, 0, nullptr));
  }).expect_success(30s);
}

}  // namespace
}  // namespace floe::test
