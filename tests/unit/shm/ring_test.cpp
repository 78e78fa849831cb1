#include "shm/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

namespace floe {
namespace {

constexpr size_t kCapacity = 16 << 10;

// Swap buffers of two ranks.
struct Memory {
  SegmentLayout layout{2};
  std::vector<std::byte> buffers = std::vector<std::byte>(2 * half());
  size_t half() const { return SwapBuffers::kEach * layout.swap_distance(); }
  SwapBuffers swaps(int rank) {
    std::byte* const own = buffers.data() + static_cast<size_t>(rank) * half();
    return {own, buffers.data() + static_cast<size_t>(1 - rank) * half(), rank == 0, layout};
  }
};

// What goes one way.
struct Ring {
  Memory memory;
  alignas(64) std::byte data[kCapacity] = {};
  RingCursors writers{}, readers{};
  SwapBuffers writers_swaps = memory.swaps(0), readers_swaps = memory.swaps(1);
  RingWriter writer{data, kCapacity, writers, readers, writers_swaps};
  RingReader reader{data, kCapacity, readers, writers, readers_swaps};
};

// Two ranks and a ring each way.
struct Pair {
  struct Rank {
    Rank(Pair& pair, int self)
        : swaps(pair.memory.swaps(self)),
          out(pair.data[self], kCapacity, pair.cursors[self], pair.cursors[1 - self], swaps),
          in(pair.data[1 - self], kCapacity, pair.cursors[self], pair.cursors[1 - self], swaps) {}
    SwapBuffers swaps;
    RingWriter out;
    RingReader in;
  };
  Memory memory;
  alignas(64) std::byte data[2][kCapacity] = {};
  RingCursors cursors[2] = {};
  Rank ranks[2] = {{*this, 0}, {*this, 1}};
};

struct Collect : PacketSink {
  std::vector<std::pair<PacketHeader, std::vector<std::byte>>> packets;
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override {
    packets.emplace_back(header, std::vector<std::byte>(payload.begin(), payload.end()));
  }
  void on_peer_lost(PeerId, const Status&) override {}
};

PacketHeader numbered(uint64_t number, PacketKind kind = PacketKind::kEager) {
  PacketHeader header;
  header.kind = kind;
  header.tag = number;
  return header;
}

std::vector<std::byte> payload_of(uint64_t number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::vector<std::byte> payload(random() % 3000);
  for (std::byte& b : payload) b = static_cast<std::byte>(random());
  return payload;
}

TEST(Ring, DeliversInOrderAcrossTheWrapWithTwoThreads) {
  auto ring = std::make_unique<Ring>();
  constexpr uint64_t kPackets = 20000;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kPackets; ++i) {
      const auto payload = payload_of(i);
      while (!ring->writer.try_write(numbered(i), payload)) std::this_thread::yield();
    }
  });
  Collect sink;
  uint64_t seen = 0;
  while (seen < kPackets) {
    const int packets = ring->reader.drain(sink, 8);
    ASSERT_GE(packets, 0);
    if (packets == 0) std::this_thread::yield();
    for (auto& [header, payload] : sink.packets) {
      ASSERT_EQ(header.tag, seen);
      ASSERT_EQ(payload, payload_of(seen));
      ++seen;
    }
    sink.packets.clear();
  }
  writer.join();
}

// Where the last fields are 0 the record leaves them out.
TEST(Ring, EveryFieldOfAHeaderArrives) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> payload(200, std::byte{7});
  for (const uint64_t id : {0, 5})
    for (const uint64_t offset : {0, 6})
      for (const size_t bytes : {0, 8, 9, 72, 73, 200}) {
        PacketHeader header{PacketKind::kMore, 1, 2, 3, 4, bytes, 9, {1, 2, 3, 0, 11, 12}, id, offset};
        ASSERT_TRUE(ring->writer.try_write(header, {payload.data(), bytes}));
        Collect sink;
        ASSERT_EQ(ring->reader.drain(sink, 2), 1);
        EXPECT_EQ(std::memcmp(&sink.packets[0].first, &header, sizeof(header)), 0) << id << offset << bytes;
        EXPECT_EQ(sink.packets[0].second, std::vector<std::byte>(payload.begin(), payload.begin() + bytes));
      }
}

TEST(Ring, AMessageOfAWordTakesOneLine) { EXPECT_EQ(record_bytes(8, is_brief(numbered(1))), 64); }

TEST(Ring, RefusesWhenFullAndAcceptsAfterDraining) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> payload(2000);
  uint64_t written = 0;
  while (ring->writer.try_write(numbered(written, PacketKind::kData), payload)) ++written;
  EXPECT_EQ(written, kCapacity / record_bytes(payload.size(), true));
  Collect sink;
  EXPECT_EQ(ring->reader.drain(sink, 1), 1);
  // A record does not wrap: at the end of the ring one record of room may not be enough, two are.
  EXPECT_EQ(ring->reader.drain(sink, 1), 1);
  EXPECT_TRUE(ring->writer.try_write(numbered(written, PacketKind::kData), payload));
}

TEST(Ring, TakesTheLargestRecordAtEveryPosition) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> large(kCapacity / 3 - RingRecord::kAlign - payload_offset(kCapacity, true));
  Collect sink;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(ring->writer.try_write(numbered(1, PacketKind::kData), {large.data(), large.size()}));
    ASSERT_TRUE(ring->writer.try_write(numbered(2), {large.data(), static_cast<size_t>(i)}));
    ASSERT_EQ(ring->reader.drain(sink, 10), 2);
  }
}

struct Choosy : Collect {
  bool willing = false;
  std::vector<uint64_t> asked;
  bool wants(const PacketHeader& header) override {
    asked.push_back(header.tag);
    return willing;
  }
};

// And what comes after it.
TEST(Ring, WhatIsNotWantedStays) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> payload(SegmentLayout::kSmallestSwap);
  ASSERT_TRUE(ring->writer.try_write(numbered(1), {payload.data(), 10}));
  ASSERT_TRUE(ring->writer.try_write(numbered(2), payload));
  ASSERT_TRUE(ring->writer.try_write(numbered(3), {payload.data(), 10}));
  Choosy sink;
  EXPECT_EQ(ring->reader.drain(sink, 10), 0);
  sink.willing = true;
  EXPECT_EQ(ring->reader.drain(sink, 1), 1);
  sink.willing = false;
  EXPECT_EQ(ring->reader.drain(sink, 10), 0);
  EXPECT_EQ(ring->reader.drain(sink, 10), 0);
  sink.willing = true;
  EXPECT_EQ(ring->reader.drain(sink, 10), 2);
  EXPECT_EQ(sink.asked, (std::vector<uint64_t>{1, 1, 2, 2, 2, 3}));
  ASSERT_EQ(sink.packets.size(), 3);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(sink.packets[i].first.tag, i + 1);
}

// A peer's memory is not to be trusted: lengths that lead out of the ring are refused, not followed.
TEST(Ring, RefusesInvalidRecords) {
  for (const uint64_t length : {uint64_t{kCapacity}, kCapacity | RingRecord::kBrief, uint64_t{kCapacity + 1},
                                ~uint64_t{0} - 1, uint64_t{1} << 63}) {
    auto ring = std::make_unique<Ring>();
    ASSERT_TRUE(ring->writer.try_write(numbered(1), {}));
    std::memcpy(ring->data, &length, sizeof(length));
    Collect sink;
    EXPECT_EQ(ring->reader.drain(sink, 1), -1) << length;
    EXPECT_TRUE(sink.packets.empty());
  }
  auto ring = std::make_unique<Ring>();
  ring->writers.head.store(kCapacity * 4);
  Collect sink;
  EXPECT_EQ(ring->reader.drain(sink, 1), -1);
}

// ---- Swap buffers ---------------------------------------------------------------------------------------

struct LastPlace : PacketSink {
  const std::byte* place = nullptr;
  void on_packet(const PacketHeader&, std::span<const std::byte> payload) override { place = payload.data(); }
  void on_peer_lost(PeerId, const Status&) override {}
};

bool is_in(const std::byte* place, const std::vector<std::byte>& memory) {
  return place >= memory.data() && place < memory.data() + memory.size();
}

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
  EXPECT_TRUE(is_in(first, pair->memory.buffers));
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
      swapped += is_in(sink.place, pair->memory.buffers) ? 1 : 0;
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
    return is_in(sink.place, ring->memory.buffers);
  };
  EXPECT_TRUE(swaps(PacketKind::kEager, kLeast));
  EXPECT_TRUE(swaps(PacketKind::kMore, SegmentLayout(2).swap_bytes));
  EXPECT_FALSE(swaps(PacketKind::kEager, kLeast - 1));
  EXPECT_FALSE(swaps(PacketKind::kData, kLeast));
}

TEST(SwapBuffers, DeliverBothWaysInOrderWithTwoThreads) {
  constexpr uint64_t kPackets = 20000;
  const auto pair = std::make_unique<Pair>();
  const auto run = [&](int self) {
    Pair::Rank& rank = pair->ranks[self];
    const uint64_t own = static_cast<uint64_t>(self) * kPackets, peers = kPackets - own;
    Collect sink;
    std::mt19937 random(static_cast<uint32_t>(self));
    uint64_t sent = 0, seen = 0;
    while (seen < kPackets || sent < kPackets) {
      // In bursts, so that buffers gather on one side at times.
      for (uint32_t burst = random() % 8; burst-- > 0 && sent < kPackets; ++sent)
        if (!rank.out.try_write(numbered(own + sent), payload_of(own + sent))) break;
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

// Neither a buffer that there is none of, nor more than fits into one, nor one that is not the peer's.
TEST(SwapBuffers, RefusesInvalidRecords) {
  const auto word = [](uint64_t buffer, uint64_t bytes) {
    return RingRecord::kBrief | (buffer + 1) << RingRecord::kBufferShift | bytes;
  };
  constexpr uint64_t kPeers = 0, kReaders = SwapBuffers::kEach;
  const size_t most = SegmentLayout(2).swap_bytes;
  const auto drained = [](uint64_t length) {
    const auto ring = std::make_unique<Ring>();
    EXPECT_TRUE(ring->writer.try_write(numbered(1), {}));
    std::memcpy(ring->data, &length, sizeof(length));
    Collect sink;
    return ring->reader.drain(sink, 1);
  };
  EXPECT_EQ(drained(word(kPeers, most)), 1);
  EXPECT_EQ(drained(word(kPeers, most + 1)), -1);
  EXPECT_EQ(drained(word(SwapBuffers::kAll, 8)), -1);
  EXPECT_EQ(drained(word(UINT32_MAX - 1, 8)), -1);
  EXPECT_EQ(drained(word((RingRecord::kBrief >> RingRecord::kBufferShift) - 2, 8)), -1);
  EXPECT_EQ(drained(word(kReaders, 8)), -1);
}

}  // namespace
}  // namespace floe
