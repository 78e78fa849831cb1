// Ranks that neither come nor die: the deadline ends the wait, and says whom it waited for.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kRanks = 4, kVictim = 2;
constexpr uint64_t kTimeout = 1500;

void expect_timeouts() {
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    if (rank != kVictim) expect_report(rank, FLOE_ERR_TIMEOUT, {"rank 2", "all_reduce"});
}

TEST(Deadline, OfAStoppedRankNamesIt) {
  Processes processes(kRanks, [](uint32_t rank) {
    Member me(kTimeout);
    ASSERT_FLOE_OK(me.status());
    std::vector<float> data(50'000);
    call_until_it_fails(rank, all_reduce_of(me.rank(), data));
  });
  ASSERT_TRUE(processes.wait_for_stage(20));
  processes.signal(kVictim, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(kTimeout) + 3s);
  processes.signal(kVictim, SIGKILL);
  processes.expect_success(30s, kVictim);
  expect_timeouts();
}

TEST(Deadline, OfARankThatNeverCallsNamesIt) {
  Processes processes(kRanks, [](uint32_t rank) {
    Member me(kTimeout);
    ASSERT_FLOE_OK(me.status());
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
    if (rank == kVictim) {
      // Alive, and not in floe, until the others have given up.
      for (uint32_t other = 0; other < kRanks; ++other)
        while (other != rank && Processes::report(other).status < 0) std::this_thread::sleep_for(1ms);
      // And it learns that the communicator is over.
      std::vector<float> data(1000);
      const floe_status_t status = all_reduce_of(me.rank(), data)();
      EXPECT_TRUE(status == FLOE_ERR_TIMEOUT || status == FLOE_ERR_PEER) << floe_last_error();
      return;
    }
    std::vector<float> data(1000);
    const double begin = steady_seconds();
    call_until_it_fails(rank, all_reduce_of(me.rank(), data));
    EXPECT_GE(steady_seconds() - begin, kTimeout / 1000.0 * 0.9) << "before the deadline";
  });
  processes.expect_success(30s);
  expect_timeouts();
}

TEST(Deadline, OfAMessageNamesItsSender) {
  Processes(2, [](uint32_t rank) {
    Member me(kTimeout);
    ASSERT_FLOE_OK(me.status());
    if (rank == 1) {
      while (Processes::report(0).status < 0) std::this_thread::sleep_for(1ms);
      return;
    }
    char byte = 0;
    Processes::report(0).note(floe_recv(me.comm(), &byte, 1, FLOE_UINT8, 1, 0, nullptr));
  }).expect_success(30s);
  expect_report(0, FLOE_ERR_TIMEOUT, {"rank 1", "recv"});
}

// `ranks` create a communicator for which others never come; the time that the slowest took.
double create_in_vain(uint32_t ranks, uint32_t first, const Environment& environment) {
  Processes(
      ranks,
      [&](uint32_t rank) {
        setenv("RANK", std::to_string(rank + first).c_str(), 1);
        const double begin = steady_seconds();
        Member me(kTimeout);
        Processes::report(rank).note(me.status());
        Processes::report(rank).at = steady_seconds() - begin;
      },
      environment)
      .expect_success(60s);
  double slowest = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    slowest = std::max(slowest, Processes::report(rank).at.load());
  return slowest;
}

// At the deadline; rank 0 keeps its store for those that started later, so that all learn who is missing.
constexpr double kCreationEnds = kTimeout / 1e3 + 0.7;

TEST(Creation, WithoutOneRankListsIt) {
  expect_within(kCreationEnds, [] {
    const double took = create_in_vain(3, 0, {{"WORLD_SIZE", "4"}});
    for (const uint32_t rank : {0, 1, 2}) expect_report(rank, FLOE_ERR_STORE, {"rank 3"});
    return took;
  });
}

// Rank 0 serves the store: without it there is nobody to ask.
TEST(Creation, WithoutRank0NamesItsAddress) {
  expect_within(kCreationEnds, [] {
    const double took = create_in_vain(2, 1, {{"WORLD_SIZE", "3"}});
    for (const uint32_t rank : {0, 1}) expect_report(rank, FLOE_ERR_STORE, {"127.0.0.1", "rank 0"});
    return took;
  });
}

// Something else holds rank 0's port, and says nothing: a stopped process, whose kernel still answers.
TEST(Creation, WithASilentListenerAtItsPortNamesIt) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(0, bind(listener, generic, length));
  ASSERT_EQ(0, listen(listener, 4));
  ASSERT_EQ(0, getsockname(listener, generic, &length));
  const std::string port = std::to_string(ntohs(address.sin_port));
  expect_within(kCreationEnds, [&] {
    const double took = create_in_vain(1, 1, {{"WORLD_SIZE", "2"}, {"MASTER_PORT", port}});
    expect_report(0, FLOE_ERR_STORE, {"127.0.0.1:" + port, "does not answer"});
    return took;
  });
  close(listener);
}

// 192.0.2.0/24 is for documentation: nobody answers, or the network says so at once.
TEST(Creation, WithAnAddressThatNobodyHas) {
  Processes(1,
            [](uint32_t rank) {
              Member me(kTimeout);
              Processes::report(rank).note(me.status());
            },
            {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "192.0.2.1"}})
      .expect_success(30s);
  expect_report(0, FLOE_ERR_STORE, {"192.0.2.1"});
}

TEST(Creation, WithANameThatNobodyKnows) {
  Processes(1,
            [](uint32_t rank) {
              Member me(kTimeout);
              const floe_status_t status = me.status();
              EXPECT_TRUE(status == FLOE_ERR_STORE || status == FLOE_ERR_ENVIRONMENT) << floe_last_error();
              Processes::report(rank).note(status);
            },
            {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "no-such-host.invalid"}})
      .expect_success(60s);
  EXPECT_NE(nullptr, std::strstr(Processes::report(0).text.data(), "no-such-host.invalid"));
}

}  // namespace
}  // namespace floe::test
