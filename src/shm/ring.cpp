#include "shm/ring.h"

#include "base/cache_hints.h"
#include "base/copy.h"

namespace floe {

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

}  // namespace floe
