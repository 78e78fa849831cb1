#include "shm/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <stop_token>
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
      const PacketHeader header = i % 3 == 0 ? numbered(i) : message(i, payload.size());
      while (!ring->writer.try_write(header, payload)) std::this_thread::yield();
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

// The record leaves out what is 0, and what its payload tells.
TEST(Ring, EveryFieldOfAHeaderArrives) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> payload(200, std::byte{7});
  for (const uint64_t id : {0, 5})
    for (const uint64_t offset : {0, 6})
      for (const Descriptor descriptor : {Descriptor{}, {1, 2, 3, 0, 11, 12}, {.root = 1}, {.count = 1}})
        for (const size_t bytes : {0, 8, 9, 32, 33, 72, 73, 200})
          for (const size_t whole : {bytes, size_t{9}}) {
            PacketHeader header{PacketKind::kMore, 1, 2, 3, 4, 5, whole, descriptor, id, offset};
            ASSERT_TRUE(ring->writer.try_write(header, {payload.data(), bytes}));
            Collect sink;
            ASSERT_EQ(ring->reader.drain(sink, 2), 1);
            EXPECT_EQ(std::memcmp(&sink.packets[0].first, &header, sizeof(header)), 0)
                << id << offset << bytes << whole;
            EXPECT_EQ(sink.packets[0].second,
                      std::vector<std::byte>(payload.begin(), payload.begin() + bytes));
          }
}

// Messages come by the copy beside the cursor, one by one, or from the ring, several at once: the same either
// way.
TEST(Ring, MessagesComeByThemselvesOrTogether) {
  auto ring = std::make_unique<Ring>();
  const std::vector<size_t> sizes = {0,   1, 8, 31, 32, 33, 64, 65, 200, 1000, SegmentLayout::kSmallestSwap,
                                     5000};
  std::vector<std::byte> payload(sizes.back());
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i + 1);
  Collect sink;
  uint64_t written = 0;
  for (const size_t bytes : sizes)
    for (const int together : {1, 2, 1, 3}) {
      for (int i = 0; i < together; ++i)
        ASSERT_TRUE(ring->writer.try_write(message(written++, bytes), {payload.data(), bytes}));
      ASSERT_EQ(ring->reader.drain(sink, 8), together);
    }
  for (uint64_t i = 0; i < written; ++i) {
    const size_t bytes = sizes[i / 7];
    EXPECT_EQ(sink.packets[i].first.tag, i);
    EXPECT_EQ(sink.packets[i].first.bytes, bytes);
    EXPECT_EQ(sink.packets[i].second, std::vector<std::byte>(payload.begin(), payload.begin() + bytes));
  }
}

// While the reader looks at one the writer may put the next one there: never a mixture of two.
TEST(Ring, MessagesAreWholeWithTwoThreads) {
  auto ring = std::make_unique<Ring>();
  constexpr uint64_t kPackets = 200000;
  const auto words = [](uint64_t i) {
    const size_t most = SegmentLayout::kSmallestSwap / sizeof(uint64_t);
    const size_t count[] = {0, 1, 4, 2, 5, 3, most - 1, 4, most};
    return std::vector<uint64_t>(count[i % std::size(count)], i);
  };
  const std::jthread writer([&](const std::stop_token& failed) {
    for (uint64_t i = 0; i < kPackets; ++i) {
      const std::vector<uint64_t> payload = words(i);
      const auto bytes = std::as_bytes(std::span(payload));
      while (!ring->writer.try_write(message(i, bytes.size()), bytes)) {
        if (failed.stop_requested()) return;
        std::this_thread::yield();
      }
    }
  });
  Collect sink;
  uint64_t seen = 0;
  while (seen < kPackets) {
    ASSERT_GE(ring->reader.drain(sink, 8), 0);
    for (auto& [header, payload] : sink.packets) {
      const std::vector<uint64_t> expected = words(seen);
      const auto bytes = std::as_bytes(std::span(expected));
      ASSERT_EQ(header.tag, seen);
      ASSERT_EQ(header.bytes, bytes.size());
      ASSERT_TRUE(std::ranges::equal(payload, bytes)) << seen;
      ++seen;
    }
    sink.packets.clear();
  }
}

// The reader needs no other line for its header, nor for its payload if that fits there.
TEST(Ring, AMessageIsReadBesideTheCursor) {
  for (const size_t bytes : {0, 32, 33, 200, 1024}) {
    auto ring = std::make_unique<Ring>();
    const std::vector<std::byte> payload(bytes, std::byte{3});
    ASSERT_TRUE(ring->writer.try_write(message(5, bytes), payload));
    std::memset(ring->data, 0xff, RingRecord::kAlign);
    Collect sink;
    ASSERT_EQ(ring->reader.drain(sink, 1), 1);
    EXPECT_EQ(sink.packets[0].first.tag, 5);
    EXPECT_EQ(sink.packets[0].second, payload);
  }
}

// As when the writer has died, or the reader has seen it, before the cursor told of the next one.
TEST(Ring, AMessageWhoseCopyIsGoneIsInTheRing) {
  for (const size_t bytes : {0, 8, 100}) {
    auto ring = std::make_unique<Ring>();
    const std::vector<std::byte> payload(bytes, std::byte{3});
    ASSERT_TRUE(ring->writer.try_write(message(5, bytes), payload));
    ring->writers.latest.write(ring->writers.head, ring->writers.head, message(6, 0), 0, {});
    Collect sink;
    ASSERT_EQ(ring->reader.drain(sink, 1), 1);
    EXPECT_EQ(sink.packets[0].first.tag, 5);
    EXPECT_EQ(sink.packets[0].second, payload);
  }
}

TEST(Ring, AMessageOfHalfALineTakesOneLine) { EXPECT_EQ(record_bytes(32, form_of(message(1, 32), 32)), 64); }

TEST(Ring, RefusesWhenFullAndAcceptsAfterDraining) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> payload(2000);
  uint64_t written = 0;
  while (ring->writer.try_write(numbered(written, PacketKind::kData), payload)) ++written;
  EXPECT_EQ(written, kCapacity / record_bytes(payload.size(), HeaderForm::kBrief));
  Collect sink;
  EXPECT_EQ(ring->reader.drain(sink, 1), 1);
  // A record does not wrap: at the end of the ring one record of room may not be enough, two are.
  EXPECT_EQ(ring->reader.drain(sink, 1), 1);
  EXPECT_TRUE(ring->writer.try_write(numbered(written, PacketKind::kData), payload));
}

TEST(Ring, TakesTheLargestRecordAtEveryPosition) {
  auto ring = std::make_unique<Ring>();
  const std::vector<std::byte> large(kCapacity / 3 - RingRecord::kAlign -
                                     payload_offset(kCapacity, HeaderForm::kBrief));
  Collect sink;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(ring->writer.try_write(numbered(1, PacketKind::kData), {large.data(), large.size()}));
    ASSERT_TRUE(ring->writer.try_write(numbered(2), {large.data(), static_cast<size_t>(i)}));
    ASSERT_EQ(ring->reader.drain(sink, 10), 2);
  }
}

struct Places : PacketSink {
  std::vector<const std::byte*> places;  // of payloads
  void on_packet(const PacketHeader&, std::span<const std::byte> payload) override {
    places.push_back(payload.data());
  }
  void on_peer_lost(PeerId, const Status&) override {}
};

// What its reader keeps past the cache, through the swap buffers there; all else does not.
TEST(Ring, GoesOnBehindItsEnd) {
  const auto pair = std::make_unique<Pair>();
  Memory& memory = pair->memory;
  const std::vector<std::byte> payload(kCapacity / 4);
  // Of as much as a long ring holds, how many payloads were in swap buffers, read one by one.
  const auto behind = [&](PacketKind kind) {
    Places sink;
    for (size_t bytes = 0; bytes < memory.long_ring; bytes += payload.size()) {
      EXPECT_TRUE(pair->ranks[0].out.try_write(numbered(1, kind), payload));
      EXPECT_EQ(pair->ranks[1].in.drain(sink, 2), 1);
    }
    return std::count_if(sink.places.begin(), sink.places.end(),
                         [&](const std::byte* place) { return memory.in_buffers(place); });
  };
  const auto swap = [&](int from) {
    Places sink;
    EXPECT_TRUE(pair->ranks[from].out.try_write(numbered(1), payload));
    EXPECT_EQ(pair->ranks[1 - from].in.drain(sink, 1), 1);
    EXPECT_TRUE(memory.in_buffers(sink.places[0]));
  };
  EXPECT_EQ(behind(PacketKind::kData), 0);
  EXPECT_GT(behind(PacketKind::kDataPast), 150);
  EXPECT_EQ(behind(PacketKind::kData), 0);
  swap(0);  // a buffer that the ring does not use
  EXPECT_GT(behind(PacketKind::kDataPast), 150);
  EXPECT_EQ(behind(PacketKind::kData), 0);
  swap(0);  // one that it does
  EXPECT_EQ(behind(PacketKind::kDataPast), 0);
  swap(1);
  EXPECT_GT(behind(PacketKind::kDataPast), 150);
}

// Buffers that hold records are not taken for messages before all have been read.
TEST(Ring, WhatIsBehindItsEndStaysUntilItIsRead) {
  const auto pair = std::make_unique<Pair>();
  RingWriter& out = pair->ranks[0].out;
  const std::vector<std::byte> payload(kCapacity / 4, std::byte{1}), other(SegmentLayout::kSmallestSwap);
  uint64_t records = 0;
  while (out.try_write(numbered(1, PacketKind::kDataPast), payload)) ++records;
  EXPECT_GT(records, pair->memory.long_ring / payload.size() / 10 * 9);
  Collect sink;
  int others = 0;
  for (uint64_t i = 0; i < records; ++i) {
    ASSERT_EQ(pair->ranks[1].in.drain(sink, 1), 1);
    while (out.try_write(numbered(2), other)) ++others;
  }
  ASSERT_EQ(pair->ranks[1].in.drain(sink, 1000), others);
  EXPECT_GT(others, 10);
  for (uint64_t i = 0; i < sink.packets.size(); ++i) {
    EXPECT_EQ(sink.packets[i].first.tag, i < records ? 1u : 2u);
    EXPECT_EQ(sink.packets[i].second, i < records ? payload : other);
  }
  Places places;
  ASSERT_TRUE(out.try_write(numbered(3), other));
  ASSERT_EQ(pair->ranks[1].in.drain(places, 1), 1);
  EXPECT_TRUE(pair->memory.in_buffers(places.places[0])) << "from now on they are for messages again";
}

// Whatever comes between, and whoever has the buffers.
TEST(Ring, SharesItsBuffersWithMessages) {
  constexpr uint32_t kRanks = 50;
  const auto pair = std::make_unique<Pair>(kRanks);
  const size_t most = pair->memory.layout.swap_bytes;
  ASSERT_GT(most, SegmentLayout::kSmallestSwap);
  ASSERT_LT(most, kCapacity / 4);
  const auto payload_of = [&](uint64_t number) {
    return std::vector<std::byte>(number % 2 == 0 ? most : most / 3, static_cast<std::byte>(number));
  };
  std::mt19937 random(1);
  uint64_t sent[2] = {}, got[2] = {};
  const auto drain = [&](int from, int limit) {
    Collect sink;
    ASSERT_GE(pair->ranks[1 - from].in.drain(sink, limit), 0);
    for (const auto& [header, payload] : sink.packets) {
      ASSERT_EQ(header.tag, got[from]);
      ASSERT_EQ(payload, payload_of(got[from]++));
    }
  };
  for (int turn = 0; turn < 20000 && !HasFatalFailure(); ++turn) {
    const int from = static_cast<int>(random() % 2);
    // Not in turn, which would never leave a ring's end to a message.
    const PacketKind kind = random() % 4 == 0 ? PacketKind::kEager : PacketKind::kDataPast;
    if (pair->ranks[from].out.try_write(numbered(sent[from], kind), payload_of(sent[from]))) ++sent[from];
    if (random() % 2 == 0) drain(from, 1 + static_cast<int>(random() % 4));
  }
  EXPECT_GT(std::min(sent[0], sent[1]), 3000u);
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

TEST(Ring, AMessageBesideTheCursorThatIsNotWantedStays) {
  auto ring = std::make_unique<Ring>();
  ASSERT_TRUE(ring->writer.try_write(message(1, 0), {}));
  Choosy sink;
  EXPECT_EQ(ring->reader.drain(sink, 10), 0);
  EXPECT_EQ(ring->reader.drain(sink, 10), 0);
  EXPECT_EQ(ring->readers.tail, 0);
  sink.willing = true;
  EXPECT_EQ(ring->reader.drain(sink, 10), 1);
  EXPECT_EQ(ring->reader.drain(sink, 10), 0);
  EXPECT_EQ(ring->readers.tail, record_bytes(0, HeaderForm::kBare));
  EXPECT_EQ(sink.asked, (std::vector<uint64_t>{1, 1, 1}));
}

// A peer's memory is not to be trusted: lengths that lead out of the ring are refused, not followed.
TEST(Ring, RefusesInvalidRecords) {
  auto ring = std::make_unique<Ring>();
  const uint64_t all = ring->memory.long_ring;
  for (const uint64_t length : {uint64_t{kCapacity}, all, all | RingRecord::with(HeaderForm::kBrief),
                                all | RingRecord::with(HeaderForm::kBare), all + 1, ~uint64_t{0} - 1,
                                RingRecord::with(HeaderForm::kNone)}) {
    ring = std::make_unique<Ring>();
    const std::byte payload[1]{};
    ASSERT_TRUE(ring->writer.try_write(numbered(1), payload));
    std::memcpy(ring->data, &length, sizeof(length));
    Collect sink;
    EXPECT_EQ(ring->reader.drain(sink, 1), -1) << length;
    EXPECT_TRUE(sink.packets.empty());
  }
  ring = std::make_unique<Ring>();
  ring->writers.head.store(all * 4);
  Collect sink;
  EXPECT_EQ(ring->reader.drain(sink, 1), -1);
}

// Nor the copy of one beside the cursor.
TEST(Ring, RefusesInvalidCopies) {
  auto ring = std::make_unique<Ring>();
  const auto refuses = [&](RingReader& reader) {
    Collect sink;
    return reader.drain(sink, 1) == -1 && sink.packets.empty();
  };
  for (uint64_t copied = LatestRecord::kElsewhere + 1; copied < RingRecord::kAlign; ++copied) {
    ring = std::make_unique<Ring>();
    ring->writers.head.store(RingRecord::kAlign + copied);
    EXPECT_TRUE(refuses(ring->reader)) << copied;
  }
  const uint64_t bare = RingRecord::with(HeaderForm::kBare);
  for (const uint64_t word :
       {RingRecord::with(HeaderForm::kAll) | 8, RingRecord::with(HeaderForm::kBrief) | 8,
        bare | ring->memory.long_ring, bare | uint64_t{UINT32_MAX},
        bare | uint64_t{SwapBuffers::kAll + 1} << RingRecord::kBufferShift | 8}) {
    ring = std::make_unique<Ring>();
    const std::byte payload[LatestRecord::kMostPayload + 1]{};
    const uint64_t copied = ring->writers.latest.write(ring->writers.head, 0, message(1, 8), word, payload);
    ring->writers.head.store(record_bytes(word) + copied);
    EXPECT_TRUE(refuses(ring->reader)) << word;
  }
  // Of a record that would not end where the ring does.
  ring = std::make_unique<Ring>();
  ASSERT_TRUE(ring->writer.try_write(message(1, 0), {}));
  RingReader of_half_a_line(ring->data, RingRecord::kAlign / 2, ring->readers, ring->writers,
                            ring->readers_swaps);
  EXPECT_TRUE(refuses(of_half_a_line));
}

}  // namespace
}  // namespace floe
