#include "boot/unix_exchange.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>

#include <fstream>
#include <random>
#include <set>

#include "ranks_fixture.h"

namespace floe {
namespace {

using test::mark_of;
using test::marked_fd;
using test::open_descriptors;
using test::ProcessRanks;
using test::soon;
using test::ThreadRanks;
using testing::HasSubstr;

TEST(UnixListener, NamesAndTokensAreNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    const auto listener = UnixListener::create(4);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    EXPECT_TRUE(seen.insert(listener->socket_name()).second);
    EXPECT_TRUE(seen.insert(listener->token()).second);
    EXPECT_EQ(listener->token().size(), 32u);
  }
}

void expect_all_received(const std::vector<ReceivedFds>& received, size_t self, int fds) {
  for (size_t i = 0; i < received.size(); ++i) {
    ASSERT_EQ(received[i].fds.size(), i == self ? 0u : static_cast<size_t>(fds));
    for (size_t k = 0; k < received[i].fds.size(); ++k) {
      EXPECT_EQ(mark_of(received[i].fds[k]), static_cast<int>(10 * i + k));
      EXPECT_TRUE(::fcntl(received[i].fds[k].get(), F_GETFD) & FD_CLOEXEC);
    }
  }
}

class ThreadExchange : public testing::TestWithParam<std::pair<size_t, int>> {};

TEST_P(ThreadExchange, EveryRankGetsWhatEveryOtherGave) {
  const auto [count, fds] = GetParam();
  ThreadRanks ranks(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i, fds = fds] {
      std::mt19937 random(static_cast<unsigned>(i));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      const auto received = ranks.exchange(i, fds, soon());
      ASSERT_TRUE(received.ok()) << received.status().message();
      expect_all_received(*received, i, fds);
      for (const ReceivedFds& from : *received) EXPECT_FALSE(from.pidfd.valid()) << "a pidfd of this process";
    });
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadExchange,
                         testing::Values(std::pair{1, 1}, std::pair{2, 1}, std::pair{2, 8}, std::pair{3, 2},
                                         std::pair{8, 3}, std::pair{24, 1}),
                         [](const auto& info) {
                           return fmt::format("{}_ranks_{}_fds", info.param.first, info.param.second);
                         });

// One rank arrives only when all others are waiting: first, last or in the middle.
TEST(Exchange, TheOrderOfArrivalDoesNotMatter) {
  for (size_t last = 0; last < 4; ++last) {
    ThreadRanks ranks(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        if (i == last) std::this_thread::sleep_for(Millis(100));
        const auto received = ranks.exchange(i, 1, soon());
        EXPECT_TRUE(received.ok()) << received.status().message();
      });
    for (std::thread& thread : threads) thread.join();
  }
}

// Ranks are not always 0..n-1: on the second host of two they start higher, and with gaps.
TEST(Exchange, RanksAreThoseOfTheCommunicator) {
  ThreadRanks ranks(3);
  const uint32_t numbers[] = {5, 70'000, 6};
  for (size_t i = 0; i < 3; ++i) ranks.ranks[i].rank = numbers[i];
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      const auto received = ranks.exchange(i, 1, soon());
      ASSERT_TRUE(received.ok()) << received.status().message();
      expect_all_received(*received, i, 1);
    });
  for (std::thread& thread : threads) thread.join();
}

// The process that a pidfd is of, from the kernel.
pid_t pid_of(const UniqueFd& pidfd) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", pidfd.get()));
  for (std::string word; info >> word;)
    if (word == "Pid:") {
      pid_t pid = 0;
      info >> pid;
      return pid;
    }
  return 0;
}

int exchange_as_process(ProcessRanks& processes, size_t i, size_t count) {
  auto listener = UnixListener::create(static_cast<uint32_t>(count));
  if (!listener.ok()) return 2;
  processes.board().announce(i, *listener);
  const auto ranks = processes.board().ranks(count);
  const UniqueFd mine = marked_fd(static_cast<int>(i));
  const int given = mine.get();
  const auto received = exchange_fds(*listener, ranks, i, std::span(&given, 1), soon());
  if (!received.ok()) {
    fmt::print(stderr, "rank {}: {}\n", i, received.status().message());
    return 3;
  }
  for (size_t j = 0; j < count; ++j) {
    const ReceivedFds& from = (*received)[j];
    if (j == i && (!from.fds.empty() || from.pidfd.valid())) return 4;
    if (j == i) continue;
    if (from.fds.size() != 1 || mark_of(from.fds[0]) != static_cast<int>(j)) return 5;
    if (pid_of(from.pidfd) != ranks[j].pid) return 6;
    if (!(::fcntl(from.pidfd.get(), F_GETFD) & FD_CLOEXEC)) return 7;
  }
  // All stay until all have looked: a process that has gone has no pid any more.
  processes.board().announced.fetch_add(1);
  while (processes.board().announced.load() < 2 * count) std::this_thread::sleep_for(Millis(1));
  return 0;
}

TEST(Exchange, BetweenProcessesGivesPidfdsToo) {
  for (const size_t count : {2, 5, 8}) {
    ProcessRanks processes;
    for (size_t i = 0; i < count; ++i)
      processes.spawn([&, i] { return exchange_as_process(processes, i, count); });
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(processes.wait_for_first(), 0) << i << " of " << count;
  }
}

TEST(Exchange, ThePidfdTellsTheDeathOfThePeer) {
  ProcessRanks processes;
  processes.spawn([&] {
    auto listener = UnixListener::create(2);
    processes.board().announce(1, *listener);
    const auto ranks = processes.board().ranks(2);
    const int given = 2;
    const bool ok = exchange_fds(*listener, ranks, 1, std::span(&given, 1), soon()).ok();
    ::pause();
    return ok ? 0 : 1;
  });
  auto listener = UnixListener::create(2);
  processes.board().announce(0, *listener);
  const auto ranks = processes.board().ranks(2);
  const int given = 2;
  const auto received = exchange_fds(*listener, ranks, 0, std::span(&given, 1), soon());
  ASSERT_TRUE(received.ok()) << received.status().message();
  pollfd entry{(*received)[1].pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0) << "alive";
  ::kill(ranks[1].pid, SIGKILL);
  EXPECT_EQ(::poll(&entry, 1, 30'000), 1);
}

TEST(Exchange, LeavesNoDescriptorBehind) {
  const size_t before = open_descriptors();
  {
    ThreadRanks ranks(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] { EXPECT_TRUE(ranks.exchange(i, 2, soon()).ok()); });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Exchange, ChecksWhatCameThroughTheStore) {
  const int given = 0;
  for (int what = 0; what < 5; ++what) {
    ThreadRanks ranks(2);
    LocalRank& other = ranks.ranks[1];
    if (what == 0) other.pid = 0;
    if (what == 1) other.pid = -1;
    if (what == 2) other.token = "short";
    if (what == 3) other.socket_name = std::string(108, 'x');
    if (what == 4) other.socket_name.clear();
    const auto refused = exchange_fds(ranks.listeners[0], ranks.ranks, 0, std::span(&given, 1), soon());
    EXPECT_EQ(refused.status().code(), FLOE_ERR_STORE) << what;
    EXPECT_THAT(refused.status().message(), HasSubstr("rank 1"));
  }
}

}  // namespace
}  // namespace floe
