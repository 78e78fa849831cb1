// Rings and swap buffers of two ranks.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "shm/ring.h"

namespace floe {

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

inline PacketHeader numbered(uint64_t number, PacketKind kind = PacketKind::kEager) {
  PacketHeader header;
  header.kind = kind;
  header.tag = number;
  return header;
}

inline std::vector<std::byte> payload_of(uint64_t number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::vector<std::byte> payload(random() % 3000);
  for (std::byte& b : payload) b = static_cast<std::byte>(random());
  return payload;
}

}  // namespace floe
