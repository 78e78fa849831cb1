#include "shm/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "ring_fixture.h"

namespace floe {
namespace {

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

}  // namespace
}  // namespace floe
