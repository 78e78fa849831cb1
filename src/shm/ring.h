// A single-producer, single-consumer ring of packets between two ranks, in the producer's segment.
//
// Records are aligned to 64 bytes: a word, PacketHeader, payload, which may be in a swap buffer instead. A
// record never wraps: a skip mark fills the end. Cursors count bytes since the start and never wrap (64
// bits). A small record is also beside the cursor: see latest_record.h.
//
// Behind the ring lie the producer's own swap buffers. While it has kSwapsBehindRing of them itself,
// kDataPast goes on through these: such data push no lines of the ring out of the receiver's second-level
// cache, and a ring that fits there is slow to overwrite. What they hold then belongs to the ring until it
// has been read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/cache_hints.h"
#include "base/packet.h"
#include "shm/copy_out.h"
#include "shm/latest_record.h"
#include "shm/segment.h"
#include "shm/swap_buffers.h"

namespace floe {

struct RingRecord {
  static constexpr size_t kAlign = 64;
  static constexpr uint64_t kSkip = ~uint64_t{0};
  static constexpr int kBufferShift = 32, kBufferBits = 8;
  static constexpr int kPlaceShift = kBufferShift + kBufferBits;
  static constexpr uint64_t kGoesOn = uint64_t{1} << 61;  // the next part is in the same swap buffer
  static constexpr uint64_t kBrief = uint64_t{1} << 62;   // the header ends before `id`: the rest is 0
  // Bytes of the payload; above them 1 + the swap buffer that it is in and at which of its lines, or 0: it
  // follows here; kGoesOn and kBrief or not. Or kSkip.
  uint64_t word;
  PacketHeader header;
};

// What most headers are: 8 bytes of payload then share the line with them.
constexpr bool is_brief(const PacketHeader& header) { return header.id == 0 && header.offset == 0; }
constexpr size_t header_bytes(bool brief) {
  return brief ? LatestRecord::kHeaderBytes : sizeof(PacketHeader);
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

// Of a length that is known here in either case: a third of the instructions.
inline void copy_header(PacketHeader* to, const PacketHeader& from, bool brief) {
  if (brief)
    std::memcpy(static_cast<void*>(to), &from, header_bytes(true));
  else
    *to = from;
}

class RingWriter {
 public:
  // `capacity`: of the ring with the swap buffers behind it. `lap`: of the ring.
  // `own` and `peers`: of either rank, about the other.
  // `swaps`: of the rank that writes, for both directions; outlives this.
  RingWriter(std::byte* data, size_t capacity, size_t lap, RingCursors& own, const RingCursors& peers,
             SwapBuffers& swaps)
      : data_(data),
        capacity_(capacity),
        lap_(lap - RingRecord::kAlign),  // with room for a skip mark
        swaps_(&swaps),
        head_(&own.head),
        latest_(&own.latest),
        tail_(&peers.tail),
        copy_out_(lap, own.trial, {&peers.read}) {}

  // Copies the packet in and publishes it; false if there is no room.
  bool try_write(const PacketHeader& header, std::span<const std::byte> payload);
  // The same for a packet whose receiver has nothing to do but to read it: it reads a part while the next one
  // is written. Of a kEager or kMore packet; the parts behind the first are kMore. They share a swap buffer:
  // with one each there would soon be none left.
  bool try_write_in_parts(PacketHeader header, std::span<const std::byte> payload);

 private:
  // An eighth of the message, within bounds: shorter ones cost more than they hide. 64 KiB take 4.6 us, not
  // 5.4, 256 KiB 15.5, not 17 (Zen 5, no common L3).
  static constexpr size_t kShortestPart = 16 << 10, kLongestPart = 32 << 10;
  static size_t part_bytes(size_t message) {
    return std::clamp(message / 8, kShortestPart, kLongestPart) / RingRecord::kAlign * RingRecord::kAlign;
  }

  // Whether a record of those bytes does not go behind the last one, but to the ring's beginning.
  bool wraps(PacketKind kind, size_t bytes) const {
    return at_ + bytes > (kind == PacketKind::kDataPast && swaps_->all_behind_ring() ? capacity_ : lap_);
  }
  // Whether the reader has read all that came before that.
  bool has_read(uint64_t position);
  // For records of so many bytes, one after another but for a skip.
  bool has_room(PacketKind kind, size_t bytes) {
    const uint64_t end = written_ + bytes + (wraps(kind, bytes) ? capacity_ - at_ : 0);
    return end <= capacity_ || has_read(end - capacity_);
  }
  std::byte* next_place(PacketKind kind, size_t bytes);  // of a record: behind a skip mark, if need be
  // `copied`: by LatestRecord, or 0.
  void publish(std::byte* place, size_t bytes, uint64_t copied = 0);
  bool swaps(PacketKind kind, size_t bytes);

  std::byte* data_;
  size_t capacity_, lap_;
  SwapBuffers* swaps_;
  std::atomic<uint64_t>* head_;
  LatestRecord* latest_;
  const std::atomic<uint64_t>* tail_;
  uint64_t written_ = 0;
  uint64_t cursor_ = 0;  // what *head_ says
  size_t at_ = 0;        // the place of `written_`
  uint64_t seen_tail_ = 0;
  uint64_t behind_ring_ = 0;  // what comes before that may lie behind the ring
  CopyOut copy_out_;
};

class RingReader {
 public:
  RingReader(const std::byte* data, size_t capacity, RingCursors& own, const RingCursors& peers,
             SwapBuffers& swaps)
      : data_(data), capacity_(capacity), swaps_(&swaps), own_(&own), peers_(&peers) {}

  // Hands up to `limit` packets to `sink` and gives their room back. Returns how many, or -1 if the ring
  // holds what no writer of ours writes.
  template <class Sink>
  int drain(Sink& sink, int limit);

 private:
  // The next record is probably as long as the last. The lines of a long one would be taken from a writer
  // that is not done with them, and those of one that is beside the cursor are not needed.
  static constexpr size_t kLeastExpected = 2 * RingRecord::kAlign;
  static constexpr size_t kMostExpected = 6 * RingRecord::kAlign;

  // The lines of a record's beginning come at once, and not each when it is read.
  static void prefetch_record(const std::byte* record, uint64_t available) {
    constexpr uint64_t kMost = 1024;
    for (uint64_t at = 0; at < std::min(available, kMost); at += RingRecord::kAlign) prefetch(record + at);
  }
  // Takes the record of which LatestRecord has a copy, if that is all there is to read; false: the ring has
  // it. `packets`: what drain() then returns. Inlined there, 8 B take up to a tenth longer.
  template <class Sink>
  bool take_latest(Sink& sink, uint64_t cursor, int* packets);
  // False: no peer of ours writes such a record.
  bool take_swapped(PacketSink& sink, const PacketHeader& header, uint64_t word);

  const std::byte* data_;
  size_t capacity_;
  SwapBuffers* swaps_;
  RingCursors* own_;
  const RingCursors* peers_;
  uint64_t read_ = 0;
  size_t at_ = 0;                     // the place of that
  size_t expected_ = kLeastExpected;  // bytes of the next record that are worth fetching before it is there
};

template <class Sink>
[[gnu::noinline]] bool RingReader::take_latest(Sink& sink, uint64_t cursor, int* packets) {
  const size_t payload = LatestRecord::payload_bytes(cursor), bytes = record_bytes(payload, true);
  if (LatestRecord::position(cursor) != read_ + bytes) return false;
  LatestRecord::Copy copy;
  if (payload > LatestRecord::kMostPayload || bytes > capacity_ - at_) {
    *packets = -1;
  } else if (!peers_->latest.read(peers_->head, cursor, &copy)) {
    return false;
  } else if (sink.wants(copy.header)) {
    sink.on_packet(copy.header, {copy.payload.data(), payload});
    read_ += bytes;
    at_ = bytes == capacity_ - at_ ? 0 : at_ + bytes;
    expected_ = 0;
    own_->tail.store(read_, std::memory_order_release);  // as in drain()
    *packets = 1;
  }
  return true;
}

template <class Sink>
int RingReader::drain(Sink& sink, int limit) {
  // Acquire: pairs with the release in RingWriter::try_write.
  const uint64_t cursor = peers_->head.load(std::memory_order_acquire), head = LatestRecord::position(cursor);
  // The lines of a small record cross with the cursor, not after it.
  for (size_t line = 0; line < expected_; line += RingRecord::kAlign) prefetch(data_ + at_ + line);
  if (head == read_) return 0;
  if (int taken = 0; LatestRecord::has_copy(cursor) && take_latest(sink, cursor, &taken)) return taken;
  prefetch_record(data_ + at_, head - read_);
  int packets = 0;
  while (read_ != head && packets < limit) {
    const uint64_t available = head - read_;
    if (available > capacity_ || available < RingRecord::kAlign) return -1;
    const std::byte* const place = data_ + at_;
    const auto* const record = reinterpret_cast<const RingRecord*>(place);
    const uint64_t word = __atomic_load_n(&record->word, __ATOMIC_RELAXED);  // once: see below
    if (word == RingRecord::kSkip) {
      read_ += capacity_ - at_;
      at_ = 0;
      continue;
    }
    const bool brief = (word & RingRecord::kBrief) != 0;
    const bool swapped = (word & ~RingRecord::kBrief) >> RingRecord::kBufferShift != 0;
    const size_t payload = static_cast<uint32_t>(word);
    const size_t bytes = record_bytes(swapped ? 0 : payload, brief), to_end = capacity_ - at_;
    if (bytes > available || bytes > to_end) return -1;
    PacketHeader header;  // a copy: the peer could change it while it is looked at
    copy_header(&header, record->header, brief);
    if (!sink.wants(header)) break;
    const size_t next = bytes == to_end ? 0 : at_ + bytes;
    if (available != bytes) prefetch_record(data_ + next, available - bytes);
    const auto take = [&] { sink.on_packet(header, {place + payload_offset(payload, brief), payload}); };
    if (swapped) {
      if (!take_swapped(sink, header, word)) return -1;
    } else if (payload < CopyOut::kSmallest) {
      take();
    } else {
      read_copied(peers_->trial, own_->read, payload, take);
    }
    read_ += bytes;
    at_ = next;
    expected_ = bytes <= kMostExpected ? bytes : kLeastExpected;
    ++packets;
  }
  // Release: pairs with the acquire in RingWriter::try_write; all reads above are done.
  if (packets != 0) own_->tail.store(read_, std::memory_order_release);
  return packets;
}

}  // namespace floe
