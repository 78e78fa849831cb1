// A single-producer, single-consumer ring of packets between two ranks, in the producer's segment.
//
// Records are aligned to 64 bytes: a word, PacketHeader, payload, which may be in a swap buffer instead. A
// record never wraps: a skip mark fills the end. Cursors count bytes since the start and never wrap (64
// bits). Of a caller's message the header is also beside the cursor: see latest_record.h.
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
#include <optional>
#include <span>

#include "base/cache_hints.h"
#include "base/packet.h"
#include "shm/copy_out.h"
#include "shm/latest_record.h"
#include "shm/segment.h"
#include "shm/swap_buffers.h"

namespace floe {

// How much of its header a record has.
enum class HeaderForm : uint64_t {
  kAll,
  kBrief,  // what comes before `id`: the rest is 0
  kBare,   // what comes before `bytes`: that is the payload's, and the rest is 0
  kNone    // no record of ours
};

struct RingRecord {
  static constexpr size_t kAlign = 64;
  static constexpr uint64_t kSkip = ~uint64_t{0};
  static constexpr int kBufferShift = 32, kBufferBits = 8;
  static constexpr int kPlaceShift = kBufferShift + kBufferBits;
  static constexpr uint64_t kGoesOn = uint64_t{1} << 61;  // the next part is in the same swap buffer
  static constexpr int kFormShift = 62;
  static constexpr uint64_t kForm = uint64_t{3} << kFormShift;
  // Bytes of the payload; above them 1 + the swap buffer that it is in and at which of its lines, or 0: it
  // follows here; kGoesOn or not; the header's form. Or kSkip.
  uint64_t word;
  PacketHeader header;

  static constexpr uint64_t with(HeaderForm form) { return static_cast<uint64_t>(form) << kFormShift; }
  static constexpr HeaderForm form(uint64_t word) { return static_cast<HeaderForm>(word >> kFormShift); }
  static constexpr size_t payload_bytes(uint64_t word) { return static_cast<uint32_t>(word); }
  static constexpr bool is_swapped(uint64_t word) { return (word & ~kForm) >> kBufferShift != 0; }
};

inline HeaderForm form_of(const PacketHeader& header, size_t payload) {
  if (header.id != 0 || header.offset != 0) return HeaderForm::kAll;
  return header.bytes == payload && header.descriptor == Descriptor{} ? HeaderForm::kBare
                                                                      : HeaderForm::kBrief;
}
constexpr size_t header_bytes(HeaderForm form) {
  return form == HeaderForm::kBare    ? LatestRecord::kHeaderBytes
         : form == HeaderForm::kBrief ? offsetof(PacketHeader, id)
                                      : sizeof(PacketHeader);
}

// Where a record's payload begins: large ones on a line of their own, so that no store or load crosses two,
// and that a reader which has the header beside the cursor needs no other lines.
constexpr size_t payload_offset(size_t payload, HeaderForm form) {
  const size_t lines = (form == HeaderForm::kBare ? 1 : 2) * RingRecord::kAlign;
  const size_t behind_header = offsetof(RingRecord, header) + header_bytes(form);
  return payload <= lines - behind_header ? behind_header : lines;
}

constexpr size_t record_bytes(size_t payload, HeaderForm form) {
  return (payload_offset(payload, form) + payload + RingRecord::kAlign - 1) / RingRecord::kAlign *
         RingRecord::kAlign;
}
constexpr size_t record_bytes(uint64_t word) {
  return record_bytes(RingRecord::is_swapped(word) ? 0 : RingRecord::payload_bytes(word),
                      RingRecord::form(word));
}
inline const std::byte* payload_at(const std::byte* record, uint64_t word) {
  return record + payload_offset(RingRecord::payload_bytes(word), RingRecord::form(word));
}

// Of a length that is known here in each case: a third of the instructions.
inline void copy_header(PacketHeader* to, const PacketHeader& from, HeaderForm form) {
  void* const bytes = to;
  if (form == HeaderForm::kBare)
    std::memcpy(bytes, &from, header_bytes(HeaderForm::kBare));
  else if (form == HeaderForm::kBrief)
    std::memcpy(bytes, &from, header_bytes(HeaderForm::kBrief));
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

  // Of the packet that is being read from this rank's peer: see Transport.
  std::span<std::byte> answer_place();
  void answer(const PacketHeader& header, size_t payload);

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
  // Of a record whose payload is in that buffer.
  static constexpr uint64_t in_buffer(uint32_t buffer) {
    return uint64_t{buffer + 1} << RingRecord::kBufferShift;
  }

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
  // holds what no writer of ours writes. Inlined in a loop of looks, both ways at once 64 and 256 B take a
  // tenth longer.
  template <class Sink>
  [[gnu::noinline]] int drain(Sink& sink, int limit);

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
  // Takes the record of which LatestRecord has a copy, if that is all there is to read, and returns what
  // drain() does; nothing: the ring has it.
  template <class Sink>
  std::optional<int> take_latest(Sink& sink, uint64_t cursor);
  // `payload`: if it is not in a swap buffer. False: no peer of ours writes such a record.
  template <class Sink>
  bool take(Sink& sink, const PacketHeader& header, uint64_t word, const std::byte* payload);
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
std::optional<int> RingReader::take_latest(Sink& sink, uint64_t cursor) {
  const uint64_t copied = LatestRecord::copied(cursor), bytes = LatestRecord::position(cursor) - read_;
  if (copied > LatestRecord::kElsewhere) return -1;
  const bool here = copied != LatestRecord::kElsewhere;
  if (bytes > RingRecord::kAlign) {
    if (here) return {};
    prefetch_record(data_ + at_ + RingRecord::kAlign, bytes - RingRecord::kAlign);  // the payload
  }
  LatestRecord::Copy copy;
  if (!peers_->latest.read(peers_->head, cursor, &copy)) return {};
  const uint64_t word = here ? (copied - 1) | RingRecord::with(HeaderForm::kBare) : copy.word;
  if (bytes != record_bytes(word)) return {};
  if (RingRecord::form(word) != HeaderForm::kBare || bytes > capacity_ - at_) return -1;
  copy.header.bytes = RingRecord::payload_bytes(word);
  if (!sink.wants(copy.header)) return 0;
  const std::byte* const payload =
      here ? reinterpret_cast<const std::byte*>(copy.payload.data()) : payload_at(data_ + at_, word);
  if (!take(sink, copy.header, word, payload)) return -1;
  read_ += bytes;
  at_ = bytes == capacity_ - at_ ? 0 : at_ + bytes;
  expected_ = 0;
  own_->tail.store(read_, std::memory_order_release);  // as in drain()
  return 1;
}

template <class Sink>
bool RingReader::take(Sink& sink, const PacketHeader& header, uint64_t word, const std::byte* payload) {
  if (RingRecord::is_swapped(word)) return take_swapped(sink, header, word);
  const size_t bytes = RingRecord::payload_bytes(word);
  const auto hand_over = [&] { sink.on_packet(header, {payload, bytes}); };
  if (bytes < CopyOut::kSmallest)
    hand_over();
  else
    read_copied(peers_->trial, own_->read, bytes, hand_over);
  return true;
}

template <class Sink>
int RingReader::drain(Sink& sink, int limit) {
  // Acquire: pairs with the release in RingWriter::try_write.
  const uint64_t cursor = peers_->head.load(std::memory_order_acquire), head = LatestRecord::position(cursor);
  // The lines of a small record cross with the cursor, not after it.
  for (size_t line = 0; line < expected_; line += RingRecord::kAlign) prefetch(data_ + at_ + line);
  if (head == read_) return 0;
  if (LatestRecord::copied(cursor) != 0)
    if (const auto packets = take_latest(sink, cursor)) return *packets;
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
    const HeaderForm form = RingRecord::form(word);
    const size_t bytes = record_bytes(word), to_end = capacity_ - at_;
    if (form == HeaderForm::kNone || bytes > available || bytes > to_end) return -1;
    PacketHeader header;  // a copy: the peer could change it while it is looked at
    header.bytes = RingRecord::payload_bytes(word);
    copy_header(&header, record->header, form);
    if (!sink.wants(header)) break;
    const size_t next = bytes == to_end ? 0 : at_ + bytes;
    if (available != bytes) prefetch_record(data_ + next, available - bytes);
    if (!take(sink, header, word, payload_at(place, word))) return -1;
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
