// The packet transport inside a host: one ring to and one from each rank. A PeerId is a local rank.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/packet.h"
#include "shm/peer_memory.h"
#include "shm/ring.h"
#include "shm/segment.h"

namespace floe {

class ShmTransport final : public Transport {
 public:
  // segments[i] is local rank i's; they outlive the transport.
  ShmTransport(std::vector<std::shared_ptr<Segment>> segments, uint32_t self);

  std::string_view name() const override { return "shm"; }
  size_t max_payload() const override { return max_payload_; }
  bool try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) override;
  bool try_send_in_parts(PeerId peer, const PacketHeader& header,
                         std::span<const std::byte> payload) override;
  size_t most_answered() const override { return most_answered_; }
  std::span<std::byte> answer_place(PeerId peer) override { return links_[peer]->out.answer_place(); }
  void answer(PeerId peer, const PacketHeader& header, size_t payload) override;
  bool gives_memory() const override { return true; }
  Status fetch(PeerId peer, uint64_t address, std::span<std::byte> to) override {
    return read_memory_of(*segments_[peer], address, to);
  }
  int progress(PacketSink& sink) override;

  // Hands over what has come from one peer, as progress() does from all, but no more than `limit` packets.
  template <class Sink>
  int drain(PeerId peer, Sink& sink, int limit = kMostPackets);

  // For whom something was published since they were forgotten: they must be woken if they sleep.
  std::span<const PeerId> published() const { return {published_.data(), published_count_}; }
  void forget_published();

 private:
  static constexpr int kMostPackets = 16;  // then other peers get their turn
  struct Link {
    Link(const Segment& mine, uint32_t self, const Segment& theirs, uint32_t peer);
    SwapBuffers swaps;
    RingWriter out;
    RingReader in;
    bool broken = false;
    bool published = false;
  };

  void note_published(PeerId peer) {
    if (!std::exchange(links_[peer]->published, true)) published_[published_count_++] = peer;
  }

  std::vector<std::shared_ptr<Segment>> segments_;
  uint32_t self_;
  size_t max_payload_, most_answered_;
  std::vector<std::unique_ptr<Link>> links_;  // by local rank; null: the own one
  std::vector<PeerId> published_;             // the first of them; of the length of links_
  size_t published_count_ = 0;
};

template <class Sink>
int ShmTransport::drain(PeerId peer, Sink& sink, int limit) {
  Link& link = *links_[peer];
  if (link.broken) return 0;
  const int packets = link.in.drain(sink, limit);
  if (packets < 0) {
    link.broken = true;
    sink.on_peer_lost(peer, error(FLOE_ERR_INTERNAL, "its shared-memory ring holds an invalid record"));
    return 0;
  }
  if (packets > 0) note_published(peer);  // room was given back: the writer may wait for it
  return packets;
}

}  // namespace floe
