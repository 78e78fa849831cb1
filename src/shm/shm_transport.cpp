#include "shm/shm_transport.h"

#include <algorithm>
#include <utility>

namespace floe {

ShmTransport::Link::Link(const Segment& mine, uint32_t self, const Segment& theirs, uint32_t peer)
    : swaps(mine.swap_buffers(peer), theirs.swap_buffers(self), self < peer, mine.layout()),
      out(mine.ring(peer), mine.layout().ring_bytes, mine.cursors(peer), theirs.cursors(self), swaps),
      in(theirs.ring(self), mine.layout().ring_bytes, mine.cursors(peer), theirs.cursors(self), swaps) {}

ShmTransport::ShmTransport(std::vector<std::shared_ptr<Segment>> segments, uint32_t self)
    : segments_(std::move(segments)), self_(self) {
  const SegmentLayout& layout = segments_[self]->layout();
  // At least three records fit, so that the writer fills one while the reader empties another.
  constexpr size_t kLargestPayload = 64 << 10;
  max_payload_ =
      std::min(layout.ring_bytes / 3 - RingRecord::kAlign - payload_offset(kLargestPayload), kLargestPayload);
  if (layout.swap_bytes != 0) max_payload_ = std::min(max_payload_, layout.swap_bytes);
  for (uint32_t peer = 0; peer < segments_.size(); ++peer) {
    links_.push_back(peer == self ? nullptr
                                  : std::make_unique<Link>(*segments_[self], self, *segments_[peer], peer));
  }
}

bool ShmTransport::try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) {
  if (!links_[peer]->out.try_write(header, payload)) return false;
  published_ = true;
  return true;
}

int ShmTransport::progress(PacketSink& sink) {
  constexpr int kPacketsPerPeer = 16;  // then the others get their turn
  int total = 0;
  for (uint32_t peer = 0; peer < links_.size(); ++peer) {
    if (peer == self_ || links_[peer]->broken) continue;
    Link& link = *links_[peer];
    const int packets = link.in.drain(sink, kPacketsPerPeer);
    if (packets < 0) {
      link.broken = true;
      sink.on_peer_lost(peer, error(FLOE_ERR_INTERNAL, "its shared-memory ring holds an invalid record"));
      continue;
    }
    if (packets > 0) published_ = true;  // room was given back: the writer may wait for it
    total += packets;
  }
  return total;
}

}  // namespace floe
