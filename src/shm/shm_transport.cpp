#include "shm/shm_transport.h"

#include <algorithm>
#include <utility>

namespace floe {

ShmTransport::ShmTransport(std::vector<std::shared_ptr<Segment>> segments, uint32_t self)
    : segments_(std::move(segments)), self_(self) {
  const SegmentLayout& layout = segments_[self]->layout();
  // At least four records fit, so that the writer fills one while the reader empties another.
  constexpr size_t kLargestPayload = 64 << 10;
  max_payload_ =
      std::min(layout.ring_bytes / 4 - RingRecord::kAlign - payload_offset(kLargestPayload), kLargestPayload);
  for (uint32_t peer = 0; peer < segments_.size(); ++peer) {
    const Segment& mine = *segments_[self];
    const Segment& theirs = *segments_[peer];
    const bool same = peer == self;
    links_.push_back({RingWriter(same ? nullptr : mine.ring(peer), layout.ring_bytes, mine.cursors(peer),
                                 theirs.cursors(self)),
                      RingReader(same ? nullptr : theirs.ring(self), layout.ring_bytes, mine.cursors(peer),
                                 theirs.cursors(self))});
  }
}

bool ShmTransport::try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) {
  if (!links_[peer].out.try_write(header, payload)) return false;
  published_ = true;
  return true;
}

int ShmTransport::progress(PacketSink& sink) {
  constexpr int kPacketsPerPeer = 16;  // then the others get their turn
  int total = 0;
  for (uint32_t peer = 0; peer < links_.size(); ++peer) {
    Link& link = links_[peer];
    if (peer == self_ || link.broken) continue;
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
