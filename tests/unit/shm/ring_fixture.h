// Rings and swap buffers of two ranks.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "shm/ring.h"

namespace floe {

constexpr size_t kCapacity = 16 << 10;

// Of two ranks: each one's ring, and its swap buffers behind it.
struct Memory {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  explicit Memory(uint32_t ranks = 2) : layout(ranks) {}
  SegmentLayout layout;  // of the swap buffers: of two ranks they are longer than this ring
  const size_t half = SwapBuffers::kEach * layout.swap_distance();
  const size_t long_ring = kCapacity + SegmentLayout::kSwapsBehindRing * layout.swap_distance();
  std::vector<Line> lines = std::vector<Line>(2 * (kCapacity + half) / sizeof(Line));

  std::byte* ring(int rank) { return lines[static_cast<size_t>(rank) * lines.size() / 2].bytes; }
  std::byte* buffers(int rank) { return ring(rank) + kCapacity; }
  SwapBuffers swaps(int rank) { return {buffers(rank), buffers(1 - rank), rank == 0, layout}; }
  RingWriter writer(int rank, RingCursors& own, const RingCursors& peers, SwapBuffers& swaps) {
    return {ring(rank), long_ring, kCapacity, own, peers, swaps};
  }
  bool in_buffers(const std::byte* place) {
    return (place >= buffers(0) && place < buffers(0) + half) ||
           (place >= buffers(1) && place < buffers(1) + half);
  }
};

// What goes one way.
struct Ring {
  Memory memory;
  std::byte* const data = memory.ring(0);
  RingCursors writers{}, readers{};
  SwapBuffers writers_swaps = memory.swaps(0), readers_swaps = memory.swaps(1);
  RingWriter writer = memory.writer(0, writers, readers, writers_swaps);
  RingReader reader{data, memory.long_ring, readers, writers, readers_swaps};
};

// Two ranks and a ring each way.
struct Pair {
  struct Rank {
    Rank(Pair& pair, int self)
        : swaps(pair.memory.swaps(self)),
          out(pair.memory.writer(self, pair.cursors[self], pair.cursors[1 - self], swaps)),
          in(pair.memory.ring(1 - self), pair.memory.long_ring, pair.cursors[self], pair.cursors[1 - self],
             swaps) {}
    SwapBuffers swaps;
    RingWriter out;
    RingReader in;
  };
  explicit Pair(uint32_t ranks = 2) : memory(ranks) {}
  Memory memory;
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

inline PacketHeader numbered(uint64_t number, PacketKind kind = PacketKind::kEager) {
  PacketHeader header;
  header.kind = kind;
  header.tag = number;
  return header;
}

// A whole one, which also is beside the cursor: see latest_record.h.
inline PacketHeader message(uint64_t number, size_t bytes) {
  PacketHeader header = numbered(number);
  header.bytes = bytes;
  return header;
}

inline std::vector<std::byte> payload_of(uint64_t number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::vector<std::byte> payload(random() % 3000);
  for (std::byte& b : payload) b = static_cast<std::byte>(random());
  return payload;
}

}  // namespace floe
