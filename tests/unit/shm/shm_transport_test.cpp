// Packets between three ranks of a host, and for whom there is news.
#include "shm/shm_transport.h"

#include <gmock/gmock.h>

#include <memory>
#include <utility>
#include <vector>

namespace floe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Sources : PacketSink {
  std::vector<uint32_t> of;
  void on_packet(const PacketHeader& header, std::span<const std::byte>) override {
    of.push_back(header.source);
  }
  void on_peer_lost(PeerId, const Status&) override {}
};

class ShmTransportTest : public testing::Test {
 protected:
  static constexpr uint32_t kRanks = 3;

  ShmTransportTest() {
    std::vector<std::shared_ptr<Segment>> segments;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      segments.push_back(*Segment::create(kRanks, rank, 7 + rank));
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      ranks.push_back(std::make_unique<ShmTransport>(segments, rank));
  }
  bool send(uint32_t from, uint32_t to, std::span<const std::byte> payload = {}) {
    PacketHeader header;
    header.kind = PacketKind::kData;
    header.source = from;
    return ranks[from]->try_send(to, header, payload);
  }

  std::vector<std::unique_ptr<ShmTransport>> ranks;
  Sources sink;
};

TEST_F(ShmTransportTest, TellsForWhomItHasPublished) {
  EXPECT_THAT(ranks[0]->published(), IsEmpty());
  ASSERT_TRUE(send(0, 2));
  ASSERT_TRUE(send(0, 2));
  EXPECT_THAT(ranks[0]->published(), ElementsAre(2));
  ASSERT_TRUE(send(0, 1));
  EXPECT_THAT(ranks[0]->published(), ElementsAre(2, 1));
  ranks[0]->forget_published();
  EXPECT_THAT(ranks[0]->published(), IsEmpty());
  ASSERT_TRUE(send(0, 2));
  EXPECT_THAT(ranks[0]->published(), ElementsAre(2));
}

TEST_F(ShmTransportTest, NotForWhomThereWasNoRoom) {
  const std::vector<std::byte> payload(ranks[0]->max_payload());
  while (send(0, 1, payload)) {
  }
  ranks[0]->forget_published();
  EXPECT_FALSE(send(0, 1, payload));
  EXPECT_THAT(ranks[0]->published(), IsEmpty());
}

// Its writer may wait for it.
TEST_F(ShmTransportTest, RoomGivenBackIsNewsForItsWriter) {
  ASSERT_TRUE(send(2, 0));
  EXPECT_EQ(ranks[0]->progress(sink), 1);
  EXPECT_THAT(ranks[0]->published(), ElementsAre(2));
  EXPECT_EQ(ranks[1]->progress(sink), 0);
  EXPECT_THAT(ranks[1]->published(), IsEmpty());
}

TEST_F(ShmTransportTest, DrainsOnePeer) {
  ASSERT_TRUE(send(1, 0));
  ASSERT_TRUE(send(2, 0));
  EXPECT_EQ(ranks[0]->drain(2, sink), 1);
  EXPECT_THAT(sink.of, ElementsAre(2));
  EXPECT_EQ(ranks[0]->drain(2, sink), 0);
  EXPECT_EQ(ranks[0]->progress(sink), 1);
  EXPECT_THAT(sink.of, ElementsAre(2, 1));
}

TEST_F(ShmTransportTest, DrainsNoMoreThanItIsAskedFor) {
  for (int packet = 0; packet < 3; ++packet) ASSERT_TRUE(send(1, 0));
  EXPECT_EQ(ranks[0]->drain(1, sink, 1), 1);
  EXPECT_EQ(ranks[0]->drain(1, sink), 2);
}

}  // namespace
}  // namespace floe
