// How a group ends: while peers may be writing to this rank's memory (see MappedReduce), and between hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/group.h"

namespace floe {
namespace {

using testing::ElementsAre;
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

// To a peer on another host. Keeps what is sent.
struct Recorder final : Transport {
  std::string_view name() const override { return "recorder"; }
  size_t max_payload() const override { return 1024; }
  bool try_send(PeerId, const PacketHeader& header, std::span<const std::byte>) override {
    sent.push_back(header.kind);
    return true;
  }
  int progress(PacketSink&) override { return 0; }

  std::vector<PacketKind> sent;
};

class GroupEndBetweenHosts : public testing::Test {
 protected:
  GroupEndBetweenHosts() {
    GroupConfig config;
    config.members.resize(2);
    config.members[1].route.transport = &transport_;
    group_.emplace(std::move(config));
  }
  void peer_sends(PacketKind kind) {
    PacketHeader header;
    header.kind = kind;
    header.source = 1;
    header.id = FLOE_ERR_ABORTED;  // of a fault
    group_->on_packet(header, {});
    group_->has_outgoing();
  }

  Recorder transport_;
  std::optional<Group> group_;
};

TEST_F(GroupEndBetweenHosts, IsSettledOnceThePeerHasHeardOfTheFault) {
  group_->fail(error(FLOE_ERR_MISMATCH, "of the test"), 0);
  EXPECT_FALSE(group_->settled());
  peer_sends(PacketKind::kEndAck);
  EXPECT_TRUE(group_->settled());
  EXPECT_THAT(transport_.sent, ElementsAre(PacketKind::kFault));
}

TEST_F(GroupEndBetweenHosts, IsSettledOnceThePeerHasFailedToo) {
  group_->fail(error(FLOE_ERR_MISMATCH, "of the test"), 0);
  peer_sends(PacketKind::kFault);
  EXPECT_TRUE(group_->settled());
  EXPECT_THAT(transport_.sent, ElementsAre(PacketKind::kFault)) << "which is the answer";
}

TEST_F(GroupEndBetweenHosts, APeersEndIsAnsweredAtOnce) {
  peer_sends(PacketKind::kFault);
  EXPECT_THAT(transport_.sent, ElementsAre(PacketKind::kEndAck));
  peer_sends(PacketKind::kLeave);
  EXPECT_THAT(transport_.sent, ElementsAre(PacketKind::kEndAck, PacketKind::kEndAck));
}

}  // namespace
}  // namespace floe
