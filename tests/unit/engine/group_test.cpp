// A group whose peers end, or write nonsense, in shared memory.
#include "engine/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <climits>

namespace floe {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kPeer = 1;

// This rank, 0, and a peer of which there is only the segment.
class GroupTest : public testing::Test {
 protected:
  explicit GroupTest(uint32_t ranks_per_cpu = 1) {
    GroupConfig config;
    config.name = "test";
    config.timeout_ms = 60'000;
    config.ranks_per_cpu = ranks_per_cpu;
    std::vector<std::shared_ptr<Segment>> segments;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      segments.push_back(*Segment::create(2, rank, 100 + rank));
      Member member;
      member.who = fmt::format("rank {} (of the test)", rank);
      member.segment = segments[rank];
      member.bell = std::move(*Bell::create());
      config.members.push_back(std::move(member));
    }
    config.shm = std::make_unique<ShmTransport>(segments, 0);
    peers_ = std::make_unique<ShmTransport>(segments, kPeer);
    config.direct =
        std::make_unique<DirectPath>(segments, 0, Choices(static_cast<uint32_t>(segments.size())));
    for (uint32_t rank = 0; rank < 2; ++rank) config.members[rank].route = {config.shm.get(), rank};
    config.members[kPeer].pidfd = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    pidfd_ = config.members[kPeer].pidfd.get();
    bell_ = &*config.members[kPeer].bell;
    peer_ = &segments[kPeer]->header();
    own_ = &segments[0]->header();
    group_ = std::make_unique<Group>(std::move(config));
  }

  void publish(RankState state, int32_t code, uint32_t culprit, std::string_view text) {
    peer_->fault.code = code;
    peer_->fault.culprit = culprit;
    text.copy(peer_->fault.text.data(), peer_->fault.text.size());
    peer_->state = static_cast<uint32_t>(state);
    own_->alarm = 1;
  }
  // A message from the peer.
  static PacketHeader message(uint64_t tag, size_t bytes) {
    return {.kind = PacketKind::kEager, .source = kPeer, .tag = tag, .bytes = bytes, .descriptor = {}};
  }
  void send(uint64_t tag, size_t bytes) {
    ASSERT_TRUE(peers_->try_send(0, message(tag, bytes), std::vector<std::byte>(bytes)));
  }
  void end_process() { ASSERT_EQ(0, ::eventfd_write(pidfd_, 1)); }

  // A receive from the peer.
  Status start_receive(uint64_t bytes = 1) {
    Transfer transfer;
    bytes_.resize(bytes);
    transfer.data = bytes_.data();
    transfer.bytes = bytes;
    transfer.peer = kPeer;
    Descriptor descriptor;
    descriptor.kind = static_cast<uint8_t>(Kind::kRecv);
    transfer.descriptor = descriptor;
    receive_ = std::make_shared<MessageOperation>(descriptor, transfer);
    return group_->start(receive_);
  }
  // Its status after all that the group hears of the peer.
  const Status& status_of_a_receive() {
    if (const Status refused = start_receive(); !refused.ok()) return refused_ = refused;
    for (int pass = 0; pass < 3; ++pass) {
      group_->progress();
      group_->check();
    }
    EXPECT_TRUE(receive_->complete());
    return receive_->status();
  }

  std::unique_ptr<ShmTransport> peers_;
  SegmentHeader* peer_ = nullptr;
  SegmentHeader* own_ = nullptr;
  int pidfd_ = -1;
  Bell* bell_ = nullptr;  // the peer's
  std::vector<std::byte> bytes_;
  std::shared_ptr<MessageOperation> receive_;
  Status refused_;
  std::unique_ptr<Group> group_;
};

TEST_F(GroupTest, TakesOverThePeersFault) {
  publish(RankState::kFailed, FLOE_ERR_MISMATCH, 0, "rank 0 called something else");
  const Status& status = status_of_a_receive();
  EXPECT_EQ(FLOE_ERR_MISMATCH, status.code());
  EXPECT_THAT(status.message(), HasSubstr("rank 0 called something else"));
}

// Though a message that nobody waits for lies before it, which otherwise stays there for a while.
TEST_F(GroupTest, ReceivesWhatThePeerSentBeforeItLeft) {
  send(9, 5000);
  send(0, 1);
  publish(RankState::kLeft, 0, 0, "");
  const Status& status = status_of_a_receive();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(GroupTest, ReceivesWhatThePeerSentBeforeItDied) {
  send(9, 5000);
  send(0, 1);
  end_process();
  const Status& status = status_of_a_receive();
  EXPECT_TRUE(status.ok()) << status.message();
}

// A receive whose caller waits for it, and that looks for its message in the ring first.
class BlockingReceive : public GroupTest {
 protected:
  void send(const PacketHeader& header, std::string_view payload) {
    ASSERT_TRUE(peers_->try_send(0, header, std::as_bytes(std::span(payload))));
  }
  void send(uint64_t tag, std::string_view text) { send(message(tag, text.size()), text); }

  // What has come with that tag, or "late".
  std::string receive(uint64_t tag, size_t room = 8) {
    text_.assign(room, ' ');
    Message receive;
    receive.data = reinterpret_cast<std::byte*>(text_.data());
    receive.bytes = room;
    receive.peer = kPeer;
    receive.tag = tag;
    receive.descriptor.kind = static_cast<uint8_t>(Kind::kRecv);
    late_ = nullptr;
    EXPECT_TRUE(group_->receive(receive, {}, &late_).ok());
    return late_ ? "late" : text_.substr(0, text_.find(' '));
  }

  std::string text_;
  std::shared_ptr<MessageOperation> late_;
};

TEST_F(BlockingReceive, TakesTheMessageWithItsTag) {
  send(5, "five");
  send(6, "six");
  send(7, "seven");
  send(6, "again");
  EXPECT_EQ(receive(6), "six");
  EXPECT_EQ(receive(5), "five");
  EXPECT_EQ(receive(7), "seven");
  EXPECT_EQ(receive(6), "again");
}

TEST_F(BlockingReceive, AMessageThatIsKeptIsBeforeOneInTheRing) {
  send(5, "first");
  send(6, "six");
  EXPECT_EQ(receive(6), "six");
  send(5, "second");
  EXPECT_EQ(receive(5), "first");
  EXPECT_EQ(receive(5), "second");
}

TEST_F(BlockingReceive, OneThatIsPostedIsBeforeOneThatFollows) {
  ASSERT_TRUE(start_receive(1).ok());
  send(0, "1");
  send(0, "2");
  EXPECT_EQ(receive(0), "late");
  group_->progress();
  EXPECT_TRUE(receive_->complete() && late_->complete());
  EXPECT_EQ(static_cast<char>(bytes_[0]), '1');
  EXPECT_EQ(text_[0], '2');
}

TEST_F(BlockingReceive, DoesNotTakeACollectivesMessage) {
  constexpr uint64_t kTag = 1 << 16;  // of the first collective
  PacketHeader collectives = message(kTag, 1);
  collectives.descriptor.lane = 1;
  send(collectives, "c");
  send(kTag, "mine");
  EXPECT_EQ(receive(kTag), "mine");
}

TEST_F(BlockingReceive, DropsWhatIsNotOfThisCommunicator) {
  PacketHeader other = message(5, 1), newer = other, nobodys = other;
  other.comm = 1;
  newer.version = PacketHeader::kVersion + 1;
  nobodys.source = 2;
  for (const PacketHeader& header : {other, newer, nobodys}) {
    send(header, "x");
    send(5, "mine");
    EXPECT_EQ(receive(5), "mine");
  }
}

TEST_F(BlockingReceive, TakesNothingButMessages) {
  PacketHeader probe = message(5, 0);
  probe.kind = PacketKind::kProbe;
  send(probe, "");
  send(5, "mine");
  EXPECT_EQ(receive(5), "mine");
}

TEST_F(BlockingReceive, GivesBackWhatItsPeerMaySendUnasked) {
  struct : PacketSink {
    void on_packet(const PacketHeader& header, std::span<const std::byte>) override {
      if (header.kind == PacketKind::kConsumed) bytes += header.bytes;
    }
    void on_peer_lost(PeerId, const Status& why) override { ADD_FAILURE() << why.message(); }
    uint64_t bytes = 0;
  } given_back;
  const std::string text(8 << 10, 'x');
  for (int i = 0; i < 800; ++i) {  // more than the window
    send(5, text);
    ASSERT_EQ(receive(5, text.size()), text);
    peers_->progress(given_back);
  }
  EXPECT_EQ(given_back.bytes, 6 << 20);
  const auto keep_one = [&] {
    send(6, text);
    group_->hurry();
    group_->progress();
  };
  const size_t left = (4 << 20) - (800 * text.size() - given_back.bytes);
  for (size_t i = 0; i < left / text.size(); ++i) keep_one();
  EXPECT_TRUE(group_->fault().ok());
  keep_one();
  EXPECT_THAT(group_->fault().message(), HasSubstr("more than may be sent unasked"));
}

TEST_F(BlockingReceive, TakesAMessageOfSeveralPackets) {
  send(message(5, 6), "two");
  EXPECT_EQ(receive(5), "late");
  PacketHeader more = message(0, 0);
  more.kind = PacketKind::kMore;
  more.offset = 3;
  send(more, "too");
  group_->progress();
  EXPECT_TRUE(late_->complete());
  EXPECT_EQ(text_, "twotoo  ");
}

TEST_F(BlockingReceive, AMessageThatHasNoRoomEndsTheCommunicator) {
  send(5, "too long");
  EXPECT_EQ(receive(5, 3), "late");
  EXPECT_EQ(text_, "   ");
  group_->progress();
  ASSERT_TRUE(late_->complete());
  EXPECT_EQ(late_->status().code(), FLOE_ERR_TRUNCATED);
}

TEST_F(BlockingReceive, APacketThatHasMoreThanItsMessageIsRefused) {
  send(message(5, 2), "long");
  EXPECT_EQ(receive(5), "late");
  EXPECT_EQ(text_, "        ");
  group_->progress();
  ASSERT_TRUE(late_->complete());
  EXPECT_THAT(late_->status().message(), HasSubstr("its payload does not have the announced size"));
}

// One look for sleepers is enough for a message and the answer that is there already.
TEST_F(GroupTest, AReceiveThatEndsAtOnceWakesWhoAMessageWasSentToBefore) {
  const auto rings = [this] {
    pollfd event{bell_->event_fd(), POLLIN, 0};
    return ::poll(&event, 1, 0) == 1;
  };
  std::byte out{}, in{};
  const Message sent{.data = &out, .bytes = 1, .peer = kPeer, .descriptor = {}};
  const Message received{.data = &in, .bytes = 1, .peer = kPeer, .descriptor = {}};
  send(0, 1);
  ASSERT_TRUE(bell_->begin_sleep(std::atomic<bool>(false), false));
  ASSERT_TRUE(group_->send_at_once(sent));
  EXPECT_FALSE(rings());
  std::shared_ptr<MessageOperation> late;
  EXPECT_TRUE(group_->receive(received, {}, &late).ok());
  EXPECT_FALSE(late);
  EXPECT_TRUE(rings());
  bell_->end_sleep();
}

// Its receiver reads them while the rest is written. In an exchange it writes meanwhile, and they only cost.
TEST_F(GroupTest, OnlyAMessageThatIsSentAloneGoesInParts) {
  struct : PacketSink {
    void on_packet(const PacketHeader&, std::span<const std::byte>) override {}
    void on_peer_lost(PeerId, const Status&) override {}
  } sink;
  std::vector<std::byte> out(64 << 10);
  Message sent{.data = out.data(), .bytes = out.size(), .peer = kPeer, .descriptor = {}};
  ASSERT_TRUE(group_->send_at_once(sent));
  EXPECT_EQ(peers_->progress(sink), 1);
  sent.alone = true;
  ASSERT_TRUE(group_->send_at_once(sent));
  EXPECT_EQ(peers_->progress(sink), 4);
}

// A record of any bytes is an error, never an operation that seems to have ended well.
class NoFault : public GroupTest, public testing::WithParamInterface<int32_t> {};

TEST_P(NoFault, IsAnErrorThatNamesThePeer) {
  publish(RankState::kFailed, GetParam(), 0, "nonsense");
  const Status& status = status_of_a_receive();
  EXPECT_EQ(FLOE_ERR_INTERNAL, status.code());
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (of the test) sent an invalid fault"));
}

INSTANTIATE_TEST_SUITE_P(Codes, NoFault,
                         testing::Values(FLOE_OK, FLOE_IN_PROGRESS, FLOE_ERR_INTERNAL + 1, -1, INT_MIN,
                                         INT_MAX));

TEST_F(GroupTest, AFaultOfNoRankIsNone) {
  publish(RankState::kFailed, FLOE_ERR_PEER, 2, "rank 2 died");
  EXPECT_EQ(FLOE_ERR_INTERNAL, status_of_a_receive().code());
}

TEST_F(GroupTest, ATextWithoutAnEndIsBounded) {
  publish(RankState::kFailed, FLOE_ERR_PEER, 0, std::string(600, 'x'));
  EXPECT_THAT(status_of_a_receive().message(), Not(HasSubstr(std::string(513, 'x'))));
}

TEST_F(GroupTest, NamesAPeerThatDied) {
  end_process();
  const Status& status = status_of_a_receive();
  EXPECT_EQ(FLOE_ERR_PEER, status.code());
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (of the test) died"));
}

TEST_F(GroupTest, NamesAPeerThatLeftBeforeItEnded) {
  publish(RankState::kLeft, FLOE_OK, kPeer, "");
  end_process();
  EXPECT_THAT(status_of_a_receive().message(), HasSubstr("left the communicator"));
}

TEST_F(GroupTest, AFaultThatAPeerPublishedBeforeItEndedCounts) {
  publish(RankState::kFailed, FLOE_ERR_MISMATCH, 0, "rank 0 called something else");
  end_process();
  EXPECT_EQ(FLOE_ERR_MISMATCH, status_of_a_receive().code());
}

// Ranks that share CPUs look for what runs on another one before they give up their own.
class RanksThatShareCpus : public GroupTest {
 protected:
  explicit RanksThatShareCpus(uint32_t ranks_per_cpu = 2) : GroupTest(ranks_per_cpu) {
    // No CPU of any machine, so that wherever this thread runs is another one.
    note_peer(false);
  }
  void note_peer(bool waits) {
    group_->members()[kPeer].bell->cpu().set_last({Clock::now(), CPU_SETSIZE, waits});
  }
  void start_barrier() {
    const Descriptor descriptor;
    const DirectOperation barrier = group_->direct()->make({});
    ASSERT_TRUE(group_->start(std::make_shared<DirectCollective>(descriptor, barrier)).ok());
  }
};

TEST_F(RanksThatShareCpus, AwaitNobodyWhoHaveNothingToDo) { EXPECT_FALSE(group_->awaits_runners()); }

TEST_F(RanksThatShareCpus, AwaitAShortMessageOfOneThatRuns) {
  ASSERT_TRUE(start_receive().ok());
  EXPECT_TRUE(group_->awaits_runners());
  note_peer(true);
  EXPECT_FALSE(group_->awaits_runners());
}

TEST_F(RanksThatShareCpus, AwaitNoLongMessage) {
  ASSERT_TRUE(start_receive(uint64_t{1} << 20).ok());
  EXPECT_FALSE(group_->awaits_runners());
}

TEST_F(RanksThatShareCpus, AwaitACollectiveOfOneThatRuns) {
  start_barrier();
  EXPECT_TRUE(group_->awaits_runners());
  note_peer(true);
  EXPECT_FALSE(group_->awaits_runners());
}

// Each with a CPU of its own gives up none; of three on one another has something to do meanwhile.
class RanksThatDoNotLook : public RanksThatShareCpus, public testing::WithParamInterface<uint32_t> {
 protected:
  RanksThatDoNotLook() : RanksThatShareCpus(GetParam()) {}
};

TEST_P(RanksThatDoNotLook, AwaitNobodyWhoRuns) {
  start_barrier();
  EXPECT_FALSE(group_->awaits_runners());
}

INSTANTIATE_TEST_SUITE_P(RanksPerCpu, RanksThatDoNotLook, testing::Values(1u, 3u));

}  // namespace
}  // namespace floe
