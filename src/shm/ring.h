// A single-producer, single-consumer ring of packets between two ranks, in the producer's segment.
//
// Records are aligned to 64 bytes: a word, PacketHeader, payload, which may be in a swap buffer instead. A
// record never wraps: a skip mark fills the end. Cursors count bytes since the start and never wrap (64
// bits).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packet.h"
#include "shm/copy_out.h"
#include "shm/segment.h"
#include "shm/swap_buffers.h"

namespace floe {

struct RingRecord {
  static constexpr size_t kAlign = 64;
  static constexpr uint64_t kSkip = ~uint64_t{0};
  static constexpr int kBufferShift = 32;
  static constexpr uint64_t kBrief = uint64_t{1} << 62;  // the header ends before `id`: the rest is 0
  // Bytes of the payload, above them 1 + the swap buffer that it is in, or 0: it follows here, and kBrief or
  // not. Or kSkip.
  uint64_t word;
  PacketHeader header;
};

// What most headers are: 8 bytes of payload then share the line with them.
constexpr bool is_brief(const PacketHeader& header) { return header.id == 0 && header.offset == 0; }
constexpr size_t header_bytes(bool brief) {
  return brief ? offsetof(PacketHeader, id) : sizeof(PacketHeader);
}

// Where a record's payload begins: large ones on a line of their own, so that no store or load crosses two.
constexpr size_t payload_offset(size_t payload, bool brief) {
  constexpr size_t kLines = 2 * RingRecord::kAlign;
  const size_t behind_header = offsetof(RingRecord, header) + header_bytes(brief);
  return payload <= kLines - behind_header ? behind_header : kLines;
}

constexpr size_t record_bytes(size_t payload, bool brief) {
  return (payload_offset(payload, brief) + payload + RingRecord::kAlign - 1) / RingRecord::kAlign *
         RingRecord::kAlign;
}

class RingWriter {
 public:
  // `own` and `peers`: of either rank, about the other.
  // `swaps`: of the rank that writes, for both directions; outlives this.
  RingWriter(std::byte* data, size_t capacity, RingCursors& own, const RingCursors& peers, SwapBuffers& swaps)
      : data_(data),
        capacity_(capacity),
        swaps_(&swaps),
        head_(&own.head),
        tail_(&peers.tail),
        copy_out_(capacity, own.trial, {&peers.read}) {}

  // Copies the packet in and publishes it; false if there is no room.
  bool try_write(const PacketHeader& header, std::span<const std::byte> payload);

 private:
  // Not what was announced: that is longer than all swap buffers, and its end would go another way than its
  // beginning.
  bool swaps(PacketKind kind, size_t bytes) const {
    return bytes >= SegmentLayout::kSmallestSwap && bytes <= swaps_->bytes() && !swaps_->empty() &&
           kind != PacketKind::kData;
  }

  std::byte* data_;
  size_t capacity_;
  SwapBuffers* swaps_;
  std::atomic<uint64_t>* head_;
  const std::atomic<uint64_t>* tail_;
  uint64_t written_ = 0;
  size_t at_ = 0;  // the place of that
  uint64_t seen_tail_ = 0;
  CopyOut copy_out_;
};

class RingReader {
 public:
  RingReader(const std::byte* data, size_t capacity, RingCursors& own, const RingCursors& peers,
             SwapBuffers& swaps)
      : data_(data), capacity_(capacity), swaps_(&swaps), own_(&own), peers_(&peers) {}

  // Hands up to `limit` packets to `sink` and gives their room back. Returns how many, or -1 if the ring
  // holds what no writer of ours writes.
  int drain(PacketSink& sink, int limit);

 private:
  // The next record is probably as long as the last. The lines of a long one would be taken from a writer
  // that is not done with them.
  static constexpr size_t kLeastExpected = 2 * RingRecord::kAlign;
  static constexpr size_t kMostExpected = 6 * RingRecord::kAlign;

  // False: no peer of ours writes such a record.
  bool take_swapped(PacketSink& sink, const PacketHeader& header, uint64_t buffer, size_t bytes);

  const std::byte* data_;
  size_t capacity_;
  SwapBuffers* swaps_;
  RingCursors* own_;
  const RingCursors* peers_;
  uint64_t read_ = 0;
  size_t at_ = 0;                     // the place of that
  size_t expected_ = kLeastExpected;  // bytes of the next record that are worth fetching before it is there
};

}  // namespace floe
