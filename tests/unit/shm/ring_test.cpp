#include "shm/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

namespace floe {
namespace {

constexpr size_t kCapacity = 16 << 10;

struct Ring {
  alignas(64) std::byte data[kCapacity] = {};
  RingCursors writers{}, readers{};
  RingWriter writer{data, kCapacity, writers, readers};
  RingReader reader{data, kCapacity, readers, writers};
};

struct Collect : PacketSink {
  std::vector<std::pair<PacketHeader, std::vector<std::byte>>> packets;
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override {
    packets.emplace_back(header, std::vector<std::byte>(payload.begin(), payload.end()));
  }
  void on_peer_lost(PeerId, const Status&) override {}
};

PacketHeader numbered(uint64_t number) {
  PacketHeader header;
  header.kind = PacketKind::kEager;
  header.tag = number;
  return header;
}

TEST(Ring, DeliversInOrderAcrossTheWrapWithTwoThreads) {
  auto ring = std::make_unique<Ring>();
  constexpr uint64_t kPackets = 20000;
  const auto payload_of = [](uint64_t number) {
    std::mt19937 random(static_cast<uint32_t>(number));
    std::vector<std::byte> payload(random() % 3000);
    for (std::byte& b : payload) b = static_cast<std::byte>(random());
    return payload;
  };
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

TEST(Ring, RefusesWhenFullAndAcceptsAfterDraining) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> payload(2000);
  uint64_t written = 0;
  while (ring->writer.try_write(numbered(written), payload)) ++written;
  EXPECT_EQ(written, kCapacity / record_bytes(payload.size()));
  Collect sink;
  EXPECT_EQ(ring->reader.drain(sink, 1), 1);
  // A record does not wrap: at the end of the ring one record of room may not be enough, two are.
  EXPECT_EQ(ring->reader.drain(sink, 1), 1);
  EXPECT_TRUE(ring->writer.try_write(numbered(written), payload));
}

TEST(Ring, TakesTheLargestRecordAtEveryPosition) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> large(kCapacity / 4 - RingRecord::kAlign - payload_offset(kCapacity));
  Collect sink;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(ring->writer.try_write(numbered(1), {large.data(), large.size()}));
    ASSERT_TRUE(ring->writer.try_write(numbered(2), {large.data(), static_cast<size_t>(i)}));
    ASSERT_EQ(ring->reader.drain(sink, 10), 2);
  }
}

// A peer's memory is not to be trusted: lengths that lead out of the ring are refused, not followed.
TEST(Ring, RefusesInvalidRecords) {
  for (const uint64_t length :
       {uint64_t{kCapacity}, uint64_t{kCapacity + 1}, ~uint64_t{0} - 1, uint64_t{1} << 63}) {
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

}  // namespace
}  // namespace floe
