// Strangers at the socket, and ranks that die, lie or never come.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "boot/unix_address.h"
#include "ranks_fixture.h"

namespace floe {
namespace {

using test::open_descriptors;
using test::ProcessRanks;
using test::soon;
using test::ThreadRanks;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

UniqueFd connect_to(const std::string& socket_name, int flags = 0) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  const UnixAddress address(socket_name);
  if (::connect(fd.get(), address.get(), address.size()) != 0) fd.reset();
  return fd;
}

// The greeting that rank `sender` would send, as unix_exchange.cpp lays it out.
std::string greeting(uint32_t sender, const std::string& token, uint32_t version = 1) {
  std::string bytes("floefds\0", 8);
  for (const uint32_t field : {version, sender, uint32_t{1}, uint32_t{0}})
    bytes.append(reinterpret_cast<const char*>(&field), sizeof field);
  return bytes + token;
}

void expect_exchange_works(ThreadRanks& ranks) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.ranks.size(); ++i)
    threads.emplace_back([&, i] {
      const auto received = ranks.exchange(i, 1, soon());
      ASSERT_TRUE(received.ok()) << received.status().message();
      for (size_t j = 0; j < received->size(); ++j) {
        if (j == i) continue;
        EXPECT_EQ(test::mark_of((*received)[j].fds.at(0)), static_cast<int>(10 * j));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Strangers of this process: their pid is one that is waited for, so that the greeting has to tell.
TEST(ExchangeStranger, WithAWrongGreetingIsDroppedWithoutAnAnswer) {
  ThreadRanks ranks(3);
  const std::string token = ranks.ranks[0].token, name = ranks.ranks[0].socket_name;
  std::string wrong_magic = greeting(1, token);
  wrong_magic[0] = 'F';
  const std::string tries[] = {
      "x",
      std::string(4096, 'x'),
      wrong_magic,
      greeting(1, std::string(32, '0')),
      greeting(1, ranks.ranks[1].token),
      greeting(1, token, 2),
      greeting(1, token).substr(0, 55),
      greeting(1, token) + "x",
      greeting(0, token),   // this rank itself
      greeting(77, token),  // no rank
  };
  std::vector<UniqueFd> strangers;
  for (const std::string& bytes : tries) {
    strangers.push_back(connect_to(name));
    ASSERT_TRUE(strangers.back().valid());
    ASSERT_EQ(::send(strangers.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(ranks.exchange(0, 1, Deadline::in_ms(20)).status().code(), FLOE_ERR_TIMEOUT);
    char byte;
    const ssize_t got = ::recv(strangers.back().get(), &byte, 1, MSG_DONTWAIT);
    EXPECT_TRUE(got == 0 || (got < 0 && errno == ECONNRESET)) << "still connected: " << bytes.substr(0, 60);
  }
  expect_exchange_works(ranks);
}

TEST(ExchangeStranger, ThatIsSilentHoldsNobodyUp) {
  ThreadRanks ranks(3);
  std::vector<UniqueFd> silent;
  for (const LocalRank& rank : ranks.ranks)
    for (int i = 0; i < 2; ++i) silent.push_back(connect_to(rank.socket_name));
  expect_exchange_works(ranks);
}

// More than there are places for: they keep the real ranks out only until their time is up.
TEST(ExchangeStranger, ThatComesAHundredTimesDelaysOnly) {
  ThreadRanks ranks(2);
  std::vector<UniqueFd> silent;
  std::thread flood([&] {
    for (int i = 0; i < 100; ++i) {
      silent.push_back(connect_to(ranks.ranks[0].socket_name, SOCK_NONBLOCK));
      if (!silent.back().valid()) std::this_thread::sleep_for(Millis(1));
    }
  });
  expect_exchange_works(ranks);
  flood.join();
}

TEST(ExchangeStranger, OfAnotherProcessIsDroppedAtOnce) {
  ThreadRanks ranks(2);
  ProcessRanks processes;
  const std::string real = greeting(1, ranks.ranks[0].token);  // it has even stolen the token
  processes.spawn([&] {
    const UniqueFd fd = connect_to(ranks.ranks[0].socket_name);
    (void)::send(fd.get(), real.data(), real.size(), MSG_NOSIGNAL);
    char byte;
    return ::recv(fd.get(), &byte, 1, 0) <= 0 ? 0 : 3;  // closed, and nothing handed over
  });
  std::atomic<bool> over = false;
  std::thread waiter([&] {
    EXPECT_EQ(processes.wait_for_first(), 0);
    over = true;
  });
  while (!over) EXPECT_EQ(ranks.exchange(0, 1, Deadline::in_ms(20)).status().code(), FLOE_ERR_TIMEOUT);
  waiter.join();
}

TEST(ExchangeStranger, CannotLeaveDescriptorsBehind) {
  ThreadRanks ranks(2);
  const size_t before = open_descriptors();
  {
    const UniqueFd fd = connect_to(ranks.ranks[0].socket_name);
    char control[CMSG_SPACE(100 * sizeof(int))] = {};
    iovec data{control, 8};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(100 * sizeof(int));
    ASSERT_GT(::sendmsg(fd.get(), &message, 0), 0);  // a hundred times descriptor 0
    EXPECT_EQ(ranks.exchange(0, 1, Deadline::in_ms(20)).status().code(), FLOE_ERR_TIMEOUT);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ExchangeFault, ARankThatNeverComesIsNamedAtTheDeadline) {
  ThreadRanks ranks(4);
  std::vector<std::thread> threads;
  for (const size_t i : {0, 1, 3})
    threads.emplace_back([&, i] {
      const auto received = ranks.exchange(i, 1, Deadline::in_ms(1000));
      ASSERT_FALSE(received.ok());
      EXPECT_EQ(received.status().code(), FLOE_ERR_TIMEOUT);
      EXPECT_THAT(received.status().message(),
                  AllOf(HasSubstr("missing: rank 2 (pid"), HasSubstr(fmt::format("rank {} waited ", i)),
                        Not(HasSubstr("rank 1 (")), Not(HasSubstr("rank 3 ("))));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(ExchangeFault, AWrongTokenConnectsNobody) {
  ThreadRanks ranks(2);
  ThreadRanks deceived = ThreadRanks(1);
  deceived.ranks = ranks.ranks;
  deceived.ranks[0].token = std::string(32, 'a');
  std::thread other([&] {
    const int given = 0;
    const auto received =
        exchange_fds(ranks.listeners[1], deceived.ranks, 1, std::span(&given, 1), Deadline::in_ms(200));
    EXPECT_EQ(received.status().code(), FLOE_ERR_TIMEOUT);
  });
  const auto received = ranks.exchange(0, 1, Deadline::in_ms(200));
  EXPECT_EQ(received.status().code(), FLOE_ERR_TIMEOUT);
  EXPECT_THAT(received.status().message(), HasSubstr("missing: rank 1"));
  other.join();
}

TEST(ExchangeFault, DifferentNumbersOfDescriptorsAreAMismatch) {
  ThreadRanks ranks(2);
  std::thread other([&] { EXPECT_FALSE(ranks.exchange(1, 3, Deadline::in_ms(300)).ok()); });
  const auto received = ranks.exchange(0, 2, soon());
  other.join();
  EXPECT_EQ(received.status().code(), FLOE_ERR_MISMATCH);
  EXPECT_THAT(received.status().message(),
              AllOf(HasSubstr("rank 1 (pid"), HasSubstr("gave 3"), HasSubstr("rank 0 gives 2")));
}

TEST(ExchangeFault, ASocketOfAnotherProcessIsNotTrusted) {
  ProcessRanks processes;
  const pid_t alive = processes.spawn([] { return ::pause(); });
  ThreadRanks ranks(2);
  ranks.ranks[0].pid = alive;  // claims to be that process, but this one listens
  const auto received = ranks.exchange(1, 1, soon());
  EXPECT_EQ(received.status().code(), FLOE_ERR_MISMATCH);
  EXPECT_THAT(received.status().message(), HasSubstr(fmt::format("rank 0 (pid {})", alive)));
}

TEST(ExchangeFault, AListenerThatIsGoneIsAnErrorAtOnce) {
  ThreadRanks ranks(2);
  { const UnixListener gone = std::move(ranks.listeners[0]); }
  const auto received = ranks.exchange(1, 1, soon());
  EXPECT_EQ(received.status().code(), FLOE_ERR_PEER);
  EXPECT_THAT(received.status().message(), HasSubstr("rank 0"));
}

// `self` waits for a process that has announced itself and is killed `when` that long afterwards; 0: before.
void expect_death_is_noticed(size_t self, Millis when) {
  ProcessRanks processes;
  const size_t victim = 1 - self;
  const pid_t pid = processes.spawn([&] {
    auto listener = UnixListener::create(2);
    processes.board().announce(victim, *listener);
    return ::pause();
  });
  auto listener = UnixListener::create(2);
  processes.board().announce(self, *listener);
  const auto ranks = processes.board().ranks(2);
  std::thread killer([&] {
    std::this_thread::sleep_for(when);
    ::kill(pid, SIGKILL);
  });
  if (when == Millis(0)) killer.join();
  const int given = 0;
  const auto received = exchange_fds(*listener, ranks, self, std::span(&given, 1), soon());
  if (killer.joinable()) killer.join();
  EXPECT_EQ(received.status().code(), FLOE_ERR_PEER);
  EXPECT_THAT(received.status().message(), HasSubstr(fmt::format("rank {} (pid {})", victim, pid)));
}

TEST(ExchangeFault, ADeadRankIsNoticedAndNamed) {
  for (const size_t self : {0, 1})
    for (const Millis when : {Millis(0), Millis(100)}) expect_death_is_noticed(self, when);
}

// Also when its process id is not even a zombie's any more.
TEST(ExchangeFault, ARankThatDiedLongAgoIsNoticed) {
  ProcessRanks processes;
  const pid_t pid = processes.spawn([] { return 0; });
  processes.wait_for_first();
  ThreadRanks ranks(2);
  ranks.ranks[1].pid = pid;
  const auto received = ranks.exchange(0, 1, soon());
  EXPECT_EQ(received.status().code(), FLOE_ERR_PEER);
  EXPECT_THAT(received.status().message(), HasSubstr("died"));
}

// The kernel then hands over fewer descriptors than were sent, and says so.
TEST(ExchangeFault, TooLowALimitOfOpenFilesIsAnErrorThatSaysSo) {
  ProcessRanks processes;
  processes.spawn([&] {
    ThreadRanks ranks(2);
    // Room for the other's eight and both ends of the connection, and for two of the eight to receive.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = open_descriptors() + 8 + 2 + 2;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::thread other([&] { (void)ranks.exchange(1, 8, Deadline::in_ms(500)); });
    const int given[8] = {};
    const auto received = exchange_fds(ranks.listeners[0], ranks.ranks, 0, given, soon());
    other.join();
    fmt::print(stderr, "{}\n", received.status().message());
    return received.ok() || received.status().message().find("open files") == std::string::npos ? 1 : 0;
  });
  EXPECT_EQ(processes.wait_for_first(), 0);
}

}  // namespace
}  // namespace floe
