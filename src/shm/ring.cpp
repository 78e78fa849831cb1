#include "shm/ring.h"

#include "base/cache_hints.h"
#include "base/copy.h"

namespace floe {

bool RingWriter::has_read(uint64_t position) {
  if (seen_tail_ >= position) return true;
  // Acquire: pairs with the release in RingReader::drain. The reader has copied everything below
  // `tail`, so these bytes may be overwritten.
  seen_tail_ = tail_->load(std::memory_order_acquire);
  return seen_tail_ >= position;
}

std::byte* RingWriter::next_place(PacketKind kind, size_t bytes) {
  if (wraps(kind, bytes)) {
    reinterpret_cast<RingRecord*>(data_ + at_)->word = RingRecord::kSkip;
    written_ += capacity_ - at_;
    if (at_ > lap_) behind_ring_ = written_;
    at_ = 0;
  }
  return data_ + at_;
}

// Not what was announced: that is longer than all swap buffers, and its end would go another way than its
// beginning.
bool RingWriter::swaps(PacketKind kind, size_t bytes) {
  if (bytes < SegmentLayout::kSmallestSwap || bytes > swaps_->bytes() || swaps_->empty() ||
      kind == PacketKind::kData || kind == PacketKind::kDataPast)
    return false;
  // Nor while one holds records that the peer has yet to read, or will hold the skip mark behind them.
  return at_ <= lap_ && has_read(behind_ring_);
}

void RingWriter::publish(std::byte* place, size_t bytes, uint64_t copied) {
  written_ += bytes;
  if (at_ + bytes > lap_) behind_ring_ = written_;
  at_ = at_ + bytes == capacity_ ? 0 : at_ + bytes;
  cursor_ = written_ + copied;
  // Release: pairs with the acquire in RingReader::drain, which then sees the whole record.
  head_->store(cursor_, std::memory_order_release);
  demote(place, bytes, *head_);
  // Not to write: a Zen 5 takes longer where the peer looks at them meanwhile.
  const std::byte* const next = data_ + at_;
  prefetch(next);
  prefetch(next + RingRecord::kAlign);
}

bool RingWriter::try_write(const PacketHeader& header, std::span<const std::byte> payload) {
  const bool swaps = this->swaps(header.kind, payload.size());
  const HeaderForm form = form_of(header, payload.size());
  const size_t need = record_bytes(swaps ? 0 : payload.size(), form);
  if (!has_room(header.kind, need)) return false;
  std::byte* const place = next_place(header.kind, need);
  auto* const record = reinterpret_cast<RingRecord*>(place);
  uint64_t word = payload.size() | RingRecord::with(form);
  if (swaps) {
    const uint32_t buffer = swaps_->take();
    word |= in_buffer(buffer);
    copy_bytes(swaps_->at(buffer), payload.data(), payload.size());
  } else {
    copy_out_(place + payload_offset(payload.size(), form), payload.data(), payload.size());
  }
  record->word = word;
  copy_header(&record->header, header, form);
  const bool copies = form == HeaderForm::kBare;
  publish(place, need, copies ? latest_->write(*head_, cursor_, header, word, payload) : 0);
  return true;
}

bool RingWriter::try_write_in_parts(PacketHeader header, std::span<const std::byte> payload) {
  const size_t part = part_bytes(header.bytes);
  if (payload.size() < 2 * part || !swaps(header.kind, payload.size())) return try_write(header, payload);
  if (!has_room(header.kind, payload.size() / part * record_bytes(0, HeaderForm::kAll))) return false;
  const uint32_t buffer = swaps_->take();
  std::byte* const to = swaps_->at(buffer);
  for (size_t at = 0, bytes = 0; at < payload.size(); at += bytes) {
    const size_t rest = payload.size() - at;
    bytes = rest < 2 * part ? rest : part;
    copy_bytes(to + at, payload.data() + at, bytes);
    const HeaderForm form = form_of(header, bytes);
    const size_t need = record_bytes(0, form);
    std::byte* const place = next_place(header.kind, need);
    auto* const record = reinterpret_cast<RingRecord*>(place);
    record->word = bytes | in_buffer(buffer) | uint64_t{at / RingRecord::kAlign} << RingRecord::kPlaceShift |
                   (bytes < rest ? RingRecord::kGoesOn : 0) | RingRecord::with(form);
    copy_header(&record->header, header, form);
    publish(place, need);
    header.kind = PacketKind::kMore;
    header.offset += bytes;
  }
  return true;
}

std::span<std::byte> RingWriter::answer_place() {
  const auto buffer = swaps_->reading();
  if (!buffer || !has_room(PacketKind::kDataSwap, record_bytes(0, HeaderForm::kAll))) return {};
  return {swaps_->at(*buffer), swaps_->bytes()};
}

void RingWriter::answer(const PacketHeader& header, size_t payload) {
  const HeaderForm form = form_of(header, payload);
  const size_t need = record_bytes(0, form);
  std::byte* const place = next_place(header.kind, need);
  auto* const record = reinterpret_cast<RingRecord*>(place);
  record->word = payload | in_buffer(*swaps_->reading()) | RingRecord::with(form);
  copy_header(&record->header, header, form);
  swaps_->answer();
  publish(place, need);
}

bool RingReader::take_swapped(PacketSink& sink, const PacketHeader& header, uint64_t word) {
  constexpr uint64_t kFlags = RingRecord::kForm | RingRecord::kGoesOn;
  constexpr uint32_t kBufferMask = (1u << RingRecord::kBufferBits) - 1;
  const size_t bytes = RingRecord::payload_bytes(word);
  const uint64_t at = ((word & ~kFlags) >> RingRecord::kPlaceShift) * RingRecord::kAlign;
  const uint32_t index = (static_cast<uint32_t>(word >> RingRecord::kBufferShift) & kBufferMask) - 1;
  if (!swaps_->is_peers(index) || at + bytes > swaps_->bytes()) return false;
  const bool goes_on = (word & RingRecord::kGoesOn) != 0;
  if (header.kind == PacketKind::kDataSwap && !goes_on) swaps_->begin_reading(index);
  sink.on_packet(header, {swaps_->at(index) + at, bytes});
  if (goes_on) return true;
  if (header.kind == PacketKind::kDataSwap)
    swaps_->end_reading();
  else
    swaps_->give(index);
  return true;
}

}  // namespace floe
