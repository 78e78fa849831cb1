// How a group ends while peers may be writing to this rank's memory: see MappedReduce.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "base/log.h"
#include "engine/group.h"

namespace floe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class GroupEnd : public testing::Test {
 protected:
  GroupEnd() {
    set_log_callback([](void* user, uint32_t, const char* line) { *static_cast<std::string*>(user) += line; },
                     &logged_);
  }
  ~GroupEnd() override { set_log_callback(nullptr, nullptr); }

  // Rank 0 of two, whose peer, `pidfd` if it is another process, is in the middle of a write.
  std::unique_ptr<Group> group_with_busy_peer(UniqueFd pidfd) {
    std::vector<std::shared_ptr<Segment>> segments = {*Segment::create(2, 0, 100),
                                                      *Segment::create(2, 1, 101)};
    own_ = segments[0];
    peer_ = segments[1];
    touching().store(1);
    GroupConfig config;
    config.name = "world";
    config.members.resize(2);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      config.members[rank].who = "rank " + std::to_string(rank);
      config.members[rank].segment = segments[rank];
    }
    config.members[1].pidfd = std::move(pidfd);
    config.direct =
        std::make_unique<DirectPath>(segments, 0, Choices(static_cast<uint32_t>(segments.size())));
    return std::make_unique<Group>(std::move(config));
  }
  std::atomic<uint32_t>& touching() const { return peer_->header().touching; }

  std::string logged_;
  std::shared_ptr<Segment> own_, peer_;
};

TEST_F(GroupEnd, WaitsForAPeersWriteToEnd) {
  const auto group = group_with_busy_peer({});
  std::atomic<bool> ended{false};
  std::thread peer([&] {
    while (own_->header().state.load(std::memory_order_acquire) == 0) std::this_thread::yield();
    std::this_thread::sleep_for(Millis(10));
    ended = true;
    touching().store(0, std::memory_order_release);
  });
  group->leave();
  EXPECT_TRUE(ended);
  peer.join();
  EXPECT_THAT(logged_, IsEmpty());
}

TEST_F(GroupEnd, CutsOffAProcessThatIsStoppedInAWrite) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ASSERT_TRUE(pidfd.valid());
  group_with_busy_peer(std::move(pidfd))->leave();
  EXPECT_THAT(logged_, HasSubstr("'world': rank 1 has not ended a write to this rank's memory in 100 ms"));
  EXPECT_THAT(logged_, HasSubstr("is cut off"));
  EXPECT_EQ(0, ::kill(child, SIGKILL));
  EXPECT_EQ(child, ::waitpid(child, nullptr, 0));
}

TEST_F(GroupEnd, NamesAThreadThatIsStoppedInAWrite) {
  group_with_busy_peer({})->leave();
  EXPECT_THAT(logged_, HasSubstr("'world': rank 1 has not ended a write to this rank's memory in 2000 ms"));
  EXPECT_THAT(logged_, HasSubstr("is not cut off"));
}

TEST_F(GroupEnd, DoesNotWaitForADeadPeersWrite) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_GT(child, 0);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ASSERT_TRUE(pidfd.valid());
  ASSERT_EQ(child, ::waitpid(child, nullptr, 0));
  group_with_busy_peer(std::move(pidfd))->leave();
  EXPECT_THAT(logged_, IsEmpty());
}

}  // namespace
}  // namespace floe
