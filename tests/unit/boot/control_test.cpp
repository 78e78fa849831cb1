#include "boot/control.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "boot/control_wire.h"
#include "boot/fd_message.h"
#include "control_pair.h"

namespace floe {
namespace {

using namespace std::chrono_literals;
using control::Record;
using test::tcp_pair;
using testing::HasSubstr;

constexpr uint64_t kSelf = 10, kFirst = 20, kSecond = 21;

UniqueFd copy_of(const UniqueFd& fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

// A process that waits to be killed.
struct Child {
  Child() : pid(::fork()) {
    if (pid == 0)
      for (;;) ::pause();
  }
  ~Child() { end(); }
  void end() {
    if (pid == 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }
  pid_t pid;
};

class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    auto [here, there] = tcp_pair();
    there_ = std::move(there);
    std::vector<Control::Host> hosts(2);
    hosts[0] = {"here", UniqueFd(), {kSelf}};
    hosts[1] = {"there", std::move(here), {kFirst, kSecond}};
    here_ = *Control::create(1, kSelf, std::move(hosts), {});
  }

  void say(uint32_t kind, uint64_t engine) {
    const Record record{kind, 0, engine};
    ASSERT_EQ(static_cast<ssize_t>(sizeof record), ::send(there_.get(), &record, sizeof record, 0));
  }
  // What is known of it soon, or never.
  const Control::End* end_of(uint64_t engine, Millis longest = 2s) {
    for (const Deadline soon = Deadline::in(longest); !here_->end_of(engine) && !soon.passed();) {
      here_->poll();
      std::this_thread::sleep_for(1ms);
    }
    return here_->end_of(engine);
  }

  UniqueFd there_;
  std::shared_ptr<Control> here_;
};

TEST_F(ControlTest, KnowsOfNoEndAtFirst) {
  EXPECT_EQ(nullptr, end_of(kFirst, 20ms));
  EXPECT_TRUE(here_->intact());
}

TEST_F(ControlTest, OneDeathIsToldByThoseThatAreLeft) {
  const uint64_t before = here_->poll();
  say(Record::kDied, kSecond);
  const Control::End* const end = end_of(kSecond);
  ASSERT_NE(nullptr, end);
  EXPECT_TRUE(end->certain);
  EXPECT_EQ("died", end->how);
  EXPECT_EQ(nullptr, here_->end_of(kFirst));
  EXPECT_NE(before, here_->poll());
  EXPECT_TRUE(here_->intact());
}

TEST_F(ControlTest, TheEndOfTheConnectionIsThatOfAllRanksThere) {
  there_.reset();
  for (const uint64_t engine : {kFirst, kSecond}) {
    ASSERT_NE(nullptr, end_of(engine));
    EXPECT_TRUE(end_of(engine)->certain);
  }
  EXPECT_FALSE(here_->intact());
}

TEST_F(ControlTest, WhoLeftBeforeHasNotDied) {
  say(Record::kLeft, kFirst);
  say(Record::kDied, kFirst);  // its process ended later
  there_.reset();
  ASSERT_NE(nullptr, end_of(kSecond));
  EXPECT_EQ(nullptr, here_->end_of(kFirst));
}

TEST_F(ControlTest, ARankThatKeepsTheConnectionOpenIsNotTakenForDead) {
  UniqueFd other = copy_of(there_);
  there_.reset();
  EXPECT_EQ(nullptr, end_of(kFirst, 50ms));
  other.reset();
  EXPECT_NE(nullptr, end_of(kFirst));
}

TEST_F(ControlTest, ARefusalIsNoCertainEnd) {
  const linger at_once{1, 0};
  ::setsockopt(there_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  there_.reset();
  ASSERT_NE(nullptr, end_of(kFirst));
  EXPECT_FALSE(end_of(kFirst)->certain);
  EXPECT_THAT(end_of(kFirst)->how, HasSubstr("host there"));
}

TEST_F(ControlTest, NonsenseOfAPeerHarmsOnlyItself) {
  say(Record::kDied, kSelf);
  say(Record::kDied, 99);
  say(77, kFirst);
  EXPECT_EQ(nullptr, end_of(kFirst, 50ms));
  EXPECT_EQ(nullptr, here_->end_of(kSelf));
  say(Record::kDied, kSecond);
  EXPECT_NE(nullptr, end_of(kSecond));
}

TEST_F(ControlTest, AFloodEndsTheConnection) {
  std::vector<char> garbage(256 << 10);
  std::thread writer([&] { (void)::send(there_.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL); });
  ASSERT_NE(nullptr, end_of(kFirst, 5s));
  EXPECT_FALSE(end_of(kFirst)->certain);
  here_.reset();
  writer.join();
}

TEST_F(ControlTest, LeavingIsTold) {
  here_.reset();
  Record record;
  ASSERT_EQ(static_cast<ssize_t>(sizeof record), ::recv(there_.get(), &record, sizeof record, MSG_WAITALL));
  EXPECT_EQ(Record::kLeft, record.kind);
  EXPECT_EQ(kSelf, record.engine);
  EXPECT_EQ(0, ::recv(there_.get(), &record, sizeof record, 0));
}

// All ranks of a host read the whole log, the late ones too.
TEST_F(ControlTest, EveryHolderReadsAll) {
  auto [here, there] = tcp_pair();
  std::vector<std::shared_ptr<Control>> holders;
  for (int i = 0; i < 2; ++i) {
    std::vector<Control::Host> hosts(2);
    hosts[0] = {"here", UniqueFd(), {kSelf}};
    hosts[1] = {"there", copy_of(here), {kFirst}};
    holders.push_back(*Control::create(1, kSelf, std::move(hosts), {}));
    there_ = copy_of(there);
    if (i == 0) say(Record::kDied, kFirst);
  }
  for (const auto& holder : holders) {
    here_ = holder;
    EXPECT_NE(nullptr, end_of(kFirst));
  }
}

TEST(ControlWatch, ANeighboursDeathIsTold) {
  Child neighbour;
  auto [here, there] = tcp_pair();
  std::vector<Control::Host> hosts(2);
  hosts[0] = {"here", UniqueFd(), {kSelf, kFirst}};
  hosts[1] = {"there", std::move(here), {kSecond}};
  std::vector<Control::Neighbour> neighbours;
  neighbours.push_back({kFirst, open_pidfd(neighbour.pid), true});
  if (!neighbours[0].pidfd.valid()) GTEST_SKIP() << "the kernel has no pidfds";
  const auto control = *Control::create(1, kSelf, std::move(hosts), std::move(neighbours));
  neighbour.end();
  Record record;
  ASSERT_EQ(static_cast<ssize_t>(sizeof record), ::recv(there.get(), &record, sizeof record, MSG_WAITALL));
  EXPECT_EQ(Record::kDied, record.kind);
  EXPECT_EQ(kFirst, record.engine);
}

// A data loader's worker must not keep the connection of its parent open.
TEST(ControlFork, AChildDoesNotKeepTheConnection) {
  auto [here, there] = tcp_pair();
  std::vector<Control::Host> hosts(1);
  hosts[0] = {"there", std::move(here), {kSecond}};
  auto control = *Control::create(1, kSelf, std::move(hosts), {});
  Child child;  // after the connection
  control.reset();
  Record record;
  EXPECT_EQ(static_cast<ssize_t>(sizeof record), ::recv(there.get(), &record, sizeof record, MSG_WAITALL));
  const timeval limit{5, 0};
  ::setsockopt(there.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  EXPECT_EQ(0, ::recv(there.get(), &record, sizeof record, 0)) << "still open";
}

}  // namespace
}  // namespace floe
