#include "shm/shm_transport.h"

#include <algorithm>
#include <utility>

#include "base/cpu.h"

namespace floe {

ShmTransport::Link::Link(const Segment& mine, uint32_t self, const Segment& theirs, uint32_t peer)
    : swaps(mine.swap_buffers(peer), theirs.swap_buffers(self), self < peer, mine.layout()),
      out(mine.ring(peer), mine.layout().long_ring_bytes(), mine.layout().ring_bytes, mine.cursors(peer),
          theirs.cursors(self), swaps),
      in(theirs.ring(self), mine.layout().long_ring_bytes(), mine.cursors(peer), theirs.cursors(self),
         swaps) {}

ShmTransport::ShmTransport(std::vector<std::shared_ptr<Segment>> segments, uint32_t self)
    : segments_(std::move(segments)), self_(self) {
  const SegmentLayout& layout = segments_[self]->layout();
  // At least three records fit, so that the writer fills one while the reader empties another.
  max_payload_ =
      layout.ring_bytes / 3 - RingRecord::kAlign - payload_offset(layout.ring_bytes, HeaderForm::kAll);
  if (layout.swap_bytes != 0) max_payload_ = std::min(max_payload_, layout.swap_bytes);
  // Where both lie in an Intel's second-level cache with what goes through them: as PairExchange's pieces.
  constexpr size_t kMostAnswered = 128 << 10;
  most_answered_ = is_intel() && layout.swap_bytes >= kMostAnswered ? kMostAnswered : 0;
  published_.resize(segments_.size());
  for (uint32_t peer = 0; peer < segments_.size(); ++peer) {
    links_.push_back(peer == self ? nullptr
                                  : std::make_unique<Link>(*segments_[self], self, *segments_[peer], peer));
  }
}

bool ShmTransport::try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) {
  if (!links_[peer]->out.try_write(header, payload)) return false;
  note_published(peer);
  return true;
}

bool ShmTransport::try_send_in_parts(PeerId peer, const PacketHeader& header,
                                     std::span<const std::byte> payload) {
  if (!links_[peer]->out.try_write_in_parts(header, payload)) return false;
  note_published(peer);
  return true;
}

void ShmTransport::answer(PeerId peer, const PacketHeader& header, size_t payload) {
  links_[peer]->out.answer(header, payload);
  note_published(peer);
}

void ShmTransport::forget_published() {
  for (const PeerId peer : published()) links_[peer]->published = false;
  published_count_ = 0;
}

int ShmTransport::progress(PacketSink& sink) {
  int total = 0;
  for (PeerId peer = 0; peer < links_.size(); ++peer)
    if (peer != self_) total += drain(peer, sink);
  return total;
}

}  // namespace floe
