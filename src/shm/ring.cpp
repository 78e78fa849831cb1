#include "shm/ring.h"

#include <algorithm>
#include <cstring>

#include "base/cache_hints.h"
#include "base/copy.h"

namespace floe {
namespace {

// The lines of a record's beginning come at once, and not each when it is read.
void prefetch_record(const std::byte* record, uint64_t available) {
  constexpr uint64_t kMost = 1024;
  for (uint64_t at = 0; at < std::min(available, kMost); at += RingRecord::kAlign)
    __builtin_prefetch(record + at);
}

// Of a length that is known here in either case: a third of the instructions.
void copy_header(PacketHeader* to, const PacketHeader& from, bool brief) {
  if (brief)
    std::memcpy(static_cast<void*>(to), &from, header_bytes(true));
  else
    *to = from;
}

}  // namespace

bool RingWriter::try_write(const PacketHeader& header, std::span<const std::byte> payload) {
  const bool swaps = this->swaps(header.kind, payload.size());
  const bool brief = is_brief(header);
  const size_t need = record_bytes(swaps ? 0 : payload.size(), brief);
  const size_t to_end = capacity_ - at_;
  const size_t skip = need > to_end ? to_end : 0;
  if (written_ + skip + need - seen_tail_ > capacity_) {
    // Acquire: pairs with the release in RingReader::drain. The reader has copied everything below
    // `tail`, so these bytes may be overwritten.
    seen_tail_ = tail_->load(std::memory_order_acquire);
    if (written_ + skip + need - seen_tail_ > capacity_) return false;
  }
  if (skip != 0) {
    reinterpret_cast<RingRecord*>(data_ + at_)->word = RingRecord::kSkip;
    written_ += skip;
    at_ = 0;
  }
  std::byte* const place = data_ + at_;
  auto* const record = reinterpret_cast<RingRecord*>(place);
  uint64_t word = payload.size() | (brief ? RingRecord::kBrief : 0);
  if (swaps) {
    const uint32_t buffer = swaps_->take();
    word |= uint64_t{buffer + 1} << RingRecord::kBufferShift;
    copy_bytes(swaps_->at(buffer), payload.data(), payload.size());
  } else {
    copy_out_(place + payload_offset(payload.size(), brief), payload.data(), payload.size());
  }
  record->word = word;
  copy_header(&record->header, header, brief);
  written_ += need;
  at_ = at_ + need == capacity_ ? 0 : at_ + need;
  // Release: pairs with the acquire in RingReader::drain, which then sees the whole record.
  head_->store(written_, std::memory_order_release);
  demote(place, need, *head_);
  // Not to write: a Zen 5 takes longer where the peer looks at them meanwhile.
  const std::byte* const next = data_ + at_;
  __builtin_prefetch(next);
  __builtin_prefetch(next + RingRecord::kAlign);
  return true;
}

bool RingReader::take_swapped(PacketSink& sink, const PacketHeader& header, uint64_t buffer, size_t bytes) {
  if (buffer >= SwapBuffers::kAll || bytes > swaps_->bytes()) return false;
  const auto index = static_cast<uint32_t>(buffer);
  sink.on_packet(header, {swaps_->at(index), bytes});
  return swaps_->give(index);
}

int RingReader::drain(PacketSink& sink, int limit) {
  // Acquire: pairs with the release in RingWriter::try_write.
  const uint64_t head = peers_->head.load(std::memory_order_acquire);
  // The lines of a small record cross with the cursor, not after it.
  for (size_t line = 0; line < expected_; line += RingRecord::kAlign) __builtin_prefetch(data_ + at_ + line);
  if (head == read_) return 0;
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
    const uint64_t buffer = (word & ~RingRecord::kBrief) >> RingRecord::kBufferShift;
    const size_t payload = static_cast<uint32_t>(word);
    const size_t bytes = record_bytes(buffer != 0 ? 0 : payload, brief), to_end = capacity_ - at_;
    if (bytes > available || bytes > to_end) return -1;
    PacketHeader header;  // a copy: the peer could change it while it is looked at
    copy_header(&header, record->header, brief);
    if (!sink.wants(header)) break;
    const size_t next = bytes == to_end ? 0 : at_ + bytes;
    if (available != bytes) prefetch_record(data_ + next, available - bytes);
    const auto take = [&] { sink.on_packet(header, {place + payload_offset(payload, brief), payload}); };
    if (buffer != 0) {
      if (!take_swapped(sink, header, buffer - 1, payload)) return -1;
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
