#include "shm/swap_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "ring_fixture.h"

namespace floe {
namespace {

std::vector<std::byte> pattern(size_t bytes, int seed = 0) {
  std::vector<std::byte> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i)
    pattern[i] = static_cast<std::byte>(i + i / 256 + static_cast<size_t>(seed));
  return pattern;
}

struct LastPlace : PacketSink {
  const std::byte* place = nullptr;
  void on_packet(const PacketHeader&, std::span<const std::byte> payload) override { place = payload.data(); }
  void on_peer_lost(PeerId, const Status&) override {}
};

TEST(SwapBuffers, AnAnswerIsWrittenWhereTheMessageCame) {
  const auto pair = std::make_unique<Pair>();
  const std::vector<std::byte> payload(SegmentLayout::kSmallestSwap);
  LastPlace sink;
  const std::byte* first = nullptr;
  for (int turn = 0; turn < 100; ++turn) {
    ASSERT_TRUE(pair->ranks[turn % 2].out.try_write(numbered(1), payload));
    ASSERT_EQ(pair->ranks[1 - turn % 2].in.drain(sink, 1), 1);
    if (turn == 0) first = sink.place;
    ASSERT_EQ(sink.place, first);
  }
  EXPECT_TRUE(pair->memory.in_buffers(first));
}

// What goes one way only uses up the sender's buffers, and its ring from then on; the answers have all of
// them.
TEST(SwapBuffers, AreForWhoReceives) {
  const auto pair = std::make_unique<Pair>();
  const std::vector<std::byte> payload(SegmentLayout::kSmallestSwap);
  LastPlace sink;
  const auto swapped_of_20 = [&](int from) {
    uint32_t swapped = 0;
    for (int turn = 0; turn < 20; ++turn) {
      EXPECT_TRUE(pair->ranks[from].out.try_write(numbered(1), payload));
      EXPECT_EQ(pair->ranks[1 - from].in.drain(sink, 1), 1);
      swapped += pair->memory.in_buffers(sink.place) ? 1 : 0;
    }
    return swapped;
  };
  EXPECT_EQ(swapped_of_20(0), SwapBuffers::kEach);
  EXPECT_EQ(swapped_of_20(0), 0u);
  EXPECT_EQ(swapped_of_20(1), SwapBuffers::kAll);
  EXPECT_EQ(swapped_of_20(0), SwapBuffers::kAll);
}

TEST(SwapBuffers, CarryWhatFitsAndWasNotAnnounced) {
  constexpr size_t kLeast = SegmentLayout::kSmallestSwap;
  const auto swaps = [](PacketKind kind, size_t bytes) {
    const auto ring = std::make_unique<Ring>();
    LastPlace sink;
    const std::vector<std::byte> payload(bytes);
    EXPECT_TRUE(ring->writer.try_write(numbered(1, kind), payload));
    EXPECT_EQ(ring->reader.drain(sink, 1), 1);
    return ring->memory.in_buffers(sink.place);
  };
  EXPECT_TRUE(swaps(PacketKind::kEager, kLeast));
  EXPECT_TRUE(swaps(PacketKind::kMore, SegmentLayout(2).swap_bytes));
  EXPECT_TRUE(swaps(PacketKind::kDataSwap, kLeast));
  EXPECT_FALSE(swaps(PacketKind::kEager, kLeast - 1));
  EXPECT_FALSE(swaps(PacketKind::kData, kLeast));
}

// Buffers carry messages, and rings go on through them.
TEST(SwapBuffers, DeliverBothWaysInOrderWithTwoThreads) {
  constexpr uint64_t kPackets = 20000;
  const auto pair = std::make_unique<Pair>();
  const auto run = [&](int self) {
    Pair::Rank& rank = pair->ranks[self];
    const uint64_t own = static_cast<uint64_t>(self) * kPackets, peers = kPackets - own;
    Collect sink;
    std::mt19937 random(static_cast<uint32_t>(self));
    const auto kind_of = [](uint64_t number) {
      return number / 64 % 2 == 0 ? PacketKind::kEager : PacketKind::kDataPast;
    };
    uint64_t sent = 0, seen = 0;
    while (seen < kPackets || sent < kPackets) {
      // In bursts, so that buffers gather on one side at times.
      for (uint32_t burst = random() % 8; burst-- > 0 && sent < kPackets; ++sent)
        if (!rank.out.try_write(numbered(own + sent, kind_of(own + sent)), payload_of(own + sent))) break;
      const int packets = rank.in.drain(sink, 8);
      ASSERT_GE(packets, 0);
      if (packets == 0) std::this_thread::yield();
      for (auto& [header, payload] : sink.packets) {
        ASSERT_EQ(header.tag, peers + seen);
        ASSERT_EQ(payload, payload_of(peers + seen));
        ++seen;
      }
      sink.packets.clear();
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

// ---- Answers --------------------------------------------------------------------------------------------

// Takes a packet, and answers it where it came with the next one, if there is to be one.
struct Answering : PacketSink {
  explicit Answering(RingWriter& out) : out(out) {}
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override {
    tag = header.tag;
    received.assign(payload.begin(), payload.end());
    place = out.answer_place();
    if (place.empty() || next == nullptr) return;
    EXPECT_EQ(place.data(), payload.data());
    std::copy(next->begin(), next->end(), place.begin());
    out.answer(numbered(next_tag, PacketKind::kDataSwap), next->size());
    next = nullptr;
  }
  void on_peer_lost(PeerId, const Status&) override {}

  RingWriter& out;
  uint64_t tag = 0, next_tag = 0;
  std::vector<std::byte> received;
  std::span<std::byte> place;
  const std::vector<std::byte>* next = nullptr;
};

TEST(AnswerPlace, IsWhereThePacketCameWhileItIsHandedOver) {
  const auto pair = std::make_unique<Pair>();
  const std::vector<std::byte> first = pattern(5000, 1), second = pattern(7000, 2);
  Answering there(pair->ranks[1].out), back(pair->ranks[0].out);
  ASSERT_TRUE(pair->ranks[0].out.try_write(numbered(1, PacketKind::kDataSwap), first));
  there.next = &second;
  there.next_tag = 2;
  ASSERT_EQ(pair->ranks[1].in.drain(there, 1), 1);
  EXPECT_EQ(there.received, first);
  EXPECT_TRUE(pair->memory.in_buffers(there.place.data()));
  EXPECT_TRUE(pair->ranks[1].out.answer_place().empty()) << "the packet has been handed over";
  ASSERT_EQ(pair->ranks[0].in.drain(back, 1), 1);
  EXPECT_EQ(back.tag, 2u);
  EXPECT_EQ(back.received, second);
  EXPECT_EQ(back.place.data(), there.place.data());
  // Not answered: it is this rank's, as it was at first.
  LastPlace sink;
  ASSERT_TRUE(pair->ranks[0].out.try_write(numbered(3), first));
  ASSERT_EQ(pair->ranks[1].in.drain(sink, 1), 1);
  EXPECT_EQ(sink.place, there.place.data());
}

TEST(AnswerPlace, IsNotOfOtherPackets) {
  const auto pair = std::make_unique<Pair>();
  Answering sink(pair->ranks[1].out);
  for (const PacketKind kind : {PacketKind::kEager, PacketKind::kData, PacketKind::kDataPast}) {
    ASSERT_TRUE(pair->ranks[0].out.try_write(numbered(1, kind), pattern(5000)));
    ASSERT_EQ(pair->ranks[1].in.drain(sink, 1), 1);
    EXPECT_TRUE(sink.place.empty());
  }
  ASSERT_TRUE(pair->ranks[0].out.try_write(numbered(1, PacketKind::kDataSwap), pattern(100)));
  ASSERT_EQ(pair->ranks[1].in.drain(sink, 1), 1);
  EXPECT_TRUE(sink.place.empty()) << "it came in the ring";
}

TEST(AnswerPlace, ThereIsNoneWithoutRoomInTheRing) {
  const auto pair = std::make_unique<Pair>();
  Answering sink(pair->ranks[1].out);
  while (pair->ranks[1].out.try_write(numbered(1), {})) continue;
  ASSERT_TRUE(pair->ranks[0].out.try_write(numbered(1, PacketKind::kDataSwap), pattern(5000)));
  ASSERT_EQ(pair->ranks[1].in.drain(sink, 1), 1);
  EXPECT_TRUE(sink.place.empty());
}

// Each side keeps two packets on their way, answers what comes where there is room, and sends others between.
TEST(AnswerPlace, DeliversBothWaysInOrderWithTwoThreads) {
  constexpr uint64_t kPackets = 20000;
  const auto pair = std::make_unique<Pair>();
  const auto run = [&](int self) {
    Pair::Rank& rank = pair->ranks[self];
    const uint64_t own = static_cast<uint64_t>(self) * kPackets, peers = kPackets - own;
    Answering sink(rank.out);
    std::mt19937 random(static_cast<uint32_t>(self) + 7);
    std::vector<std::byte> next;
    uint64_t sent = 0, seen = 0;
    while (seen < kPackets || sent < kPackets) {
      if (sent < kPackets && (sent < seen + 2 || random() % 8 == 0)) {
        const auto kind = random() % 8 == 0 ? PacketKind::kDataPast : PacketKind::kDataSwap;
        if (rank.out.try_write(numbered(own + sent, kind), payload_of(own + sent))) ++sent;
      }
      const bool answers = sent < kPackets && random() % 4 != 0;
      if (answers) next = payload_of(own + sent);
      sink.next = answers ? &next : nullptr;
      sink.next_tag = own + sent;
      const int packets = rank.in.drain(sink, 1);
      ASSERT_GE(packets, 0);
      if (answers && sink.next == nullptr) ++sent;
      if (packets == 0) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(sink.tag, peers + seen);
      ASSERT_EQ(sink.received, payload_of(peers + seen));
      ++seen;
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

// ---- Messages in parts ----------------------------------------------------------------------------------

constexpr size_t kLong = (64 << 10) + 200;

PacketHeader whole(uint64_t number, size_t bytes) {
  PacketHeader header = numbered(number);
  header.bytes = bytes;
  return header;
}

// Takes `packets` of a message from rank 1's ring: what has come of it after that, and where the last began.
const std::byte* take_parts(Pair& pair, int packets, std::vector<std::byte>* received) {
  struct : PacketSink {
    std::vector<std::byte>* received = nullptr;
    const std::byte* place = nullptr;
    void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override {
      EXPECT_EQ(header.kind, received->empty() ? PacketKind::kEager : PacketKind::kMore);
      EXPECT_EQ(header.offset, received->size());
      EXPECT_EQ(header.bytes, kLong);
      received->insert(received->end(), payload.begin(), payload.end());
      place = payload.data();
    }
    void on_peer_lost(PeerId, const Status&) override {}
  } sink;
  sink.received = received;
  EXPECT_EQ(pair.ranks[1].in.drain(sink, packets), packets);
  return sink.place;
}

TEST(Parts, LieInOneBufferThatIsTheReadersAfterTheLast) {
  const auto pair = std::make_unique<Pair>();
  const std::vector<std::byte> sent = pattern(kLong), answer(SegmentLayout::kSmallestSwap);
  ASSERT_TRUE(pair->ranks[0].out.try_write_in_parts(whole(1, kLong), sent));
  std::vector<std::byte> received;
  LastPlace answers;
  const std::byte* const first = take_parts(*pair, 1, &received);
  ASSERT_TRUE(pair->memory.in_buffers(first));
  const std::byte* const third = take_parts(*pair, 2, &received);
  ASSERT_EQ(third - first, static_cast<ptrdiff_t>(received.size()) / 3 * 2);
  ASSERT_TRUE(pair->ranks[1].out.try_write(numbered(2), answer));
  EXPECT_EQ(pair->ranks[0].in.drain(answers, 1), 1);
  EXPECT_NE(answers.place, first);
  take_parts(*pair, 1, &received);
  EXPECT_EQ(received, sent);
  ASSERT_TRUE(pair->ranks[1].out.try_write(numbered(3), answer));
  EXPECT_EQ(pair->ranks[0].in.drain(answers, 1), 1);
  EXPECT_EQ(answers.place, first);
}

// A later packet of a longer message goes on in parts, and longer ones.
TEST(Parts, GoOnInTheNextPacket) {
  const auto pair = std::make_unique<Pair>();
  const std::vector<std::byte> packet = pattern(64 << 10);
  PacketHeader header = whole(1, 256 << 10);
  header.kind = PacketKind::kMore;
  header.offset = 128 << 10;
  ASSERT_TRUE(pair->ranks[0].out.try_write_in_parts(header, packet));
  Collect sink;
  ASSERT_EQ(pair->ranks[1].in.drain(sink, 8), 2);
  for (size_t part = 0; part < 2; ++part) {
    const auto& [h, payload] = sink.packets[part];
    EXPECT_EQ(h.kind, PacketKind::kMore);
    EXPECT_EQ(h.offset, header.offset + part * packet.size() / 2);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), packet.begin() + part * packet.size() / 2));
  }
}

TEST(Parts, AreForMessagesThatAreLongAndFindABuffer) {
  const auto pair = std::make_unique<Pair>();
  Collect sink;
  const std::vector<std::byte> few(30 << 10), most(SegmentLayout::kSmallestSwap);
  ASSERT_TRUE(pair->ranks[0].out.try_write_in_parts(whole(1, few.size()), few));
  ASSERT_EQ(pair->ranks[1].in.drain(sink, 8), 1);
  EXPECT_EQ(sink.packets[0].second.size(), few.size());
  while (sink.packets.size() < SwapBuffers::kEach) {
    ASSERT_TRUE(pair->ranks[0].out.try_write(numbered(1), most));
    ASSERT_EQ(pair->ranks[1].in.drain(sink, 8), 1);
  }
  while (pair->ranks[0].out.try_write(numbered(1, PacketKind::kData), few)) continue;
  EXPECT_FALSE(pair->ranks[0].out.try_write_in_parts(whole(1, kLong), pattern(kLong)));
}

// All of its records or none; and the buffer is still the writer's.
TEST(Parts, AreNotWrittenWithoutRoomForAll) {
  const auto pair = std::make_unique<Pair>();
  const std::vector<std::byte> sent = pattern(kLong);
  uint64_t records = 0;
  while (pair->ranks[0].out.try_write(numbered(records), {})) ++records;
  Collect sink;
  std::vector<std::byte> received;
  while (!pair->ranks[0].out.try_write_in_parts(whole(1, kLong), sent))
    ASSERT_EQ(pair->ranks[1].in.drain(sink, 1), 1);
  EXPECT_GT(sink.packets.size(), 4u);
  const int rest = static_cast<int>(records - sink.packets.size());
  ASSERT_EQ(pair->ranks[1].in.drain(sink, rest), rest);
  take_parts(*pair, 4, &received);
  EXPECT_EQ(received, sent);
}

TEST(Parts, ArriveAcrossTheWrapWithTwoThreads) {
  constexpr int kMessages = 3000;
  const auto pair = std::make_unique<Pair>();
  const auto run = [&](int self) {
    Pair::Rank& rank = pair->ranks[self];
    Collect sink;
    for (int turn = 0; turn < kMessages; ++turn) {
      const size_t bytes = (32 << 10) + static_cast<size_t>(turn) * 20;
      const std::vector<std::byte> expected = pattern(bytes, turn);
      if (turn % 2 == self) {
        ASSERT_TRUE(rank.out.try_write_in_parts(whole(1, bytes), expected));
        continue;
      }
      std::vector<std::byte> received;
      while (received.size() < bytes) {
        const int packets = rank.in.drain(sink, 1);
        ASSERT_GE(packets, 0);
        if (packets == 0) std::this_thread::yield();
        for (auto& [header, payload] : std::exchange(sink.packets, {}))
          received.insert(received.end(), payload.begin(), payload.end());
      }
      ASSERT_EQ(received, expected);
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

// Neither a buffer that there is none of, nor more than fits into one, nor one that is not the peer's.
TEST(SwapBuffers, RefusesInvalidRecords) {
  const auto word = [](uint64_t buffer, uint64_t bytes) {
    return RingRecord::with(HeaderForm::kBrief) | (buffer + 1) << RingRecord::kBufferShift | bytes;
  };
  const auto at = [](uint64_t line) { return line << RingRecord::kPlaceShift; };
  constexpr uint64_t kPeers = 0, kReaders = SwapBuffers::kEach;
  const size_t most = SegmentLayout(2).swap_bytes;
  const auto drained = [](uint64_t length) {
    const auto ring = std::make_unique<Ring>();
    PacketHeader header = numbered(1);
    header.id = 1;  // read from the ring alone: see latest_record.h
    EXPECT_TRUE(ring->writer.try_write(header, {}));
    std::memcpy(ring->data, &length, sizeof(length));
    Collect sink;
    return ring->reader.drain(sink, 1);
  };
  EXPECT_EQ(drained(word(kPeers, most)), 1);
  EXPECT_EQ(drained(word(kPeers, most + 1)), -1);
  EXPECT_EQ(drained(word(SwapBuffers::kAll, 8)), -1);
  EXPECT_EQ(drained(word(UINT32_MAX - 1, 8)), -1);
  EXPECT_EQ(drained(word((RingRecord::with(HeaderForm::kBrief) >> RingRecord::kBufferShift) - 2, 8)), -1);
  EXPECT_EQ(drained(word(kPeers, most - 64) | at(1)), 1);
  EXPECT_EQ(drained(word(kPeers, most - 63) | at(1)), -1);
  EXPECT_EQ(drained(word(kPeers, 8) | at(most / 64)), -1);
  EXPECT_EQ(drained(word(kPeers, 8) | uint64_t{1} << 63), -1);
  EXPECT_EQ(drained(word(UINT64_MAX, 8) | at(1)), -1);
  EXPECT_EQ(drained(word(UINT64_MAX, 8) | RingRecord::kGoesOn), -1);
  EXPECT_EQ(drained(word(kReaders, 8)), -1);
}

}  // namespace
}  // namespace floe
