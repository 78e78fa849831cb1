// The packet transport inside a host: one ring to and one from each rank. A PeerId is a local rank.
#pragma once

#include <memory>
#include <vector>

#include "base/packet.h"
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
  int progress(PacketSink& sink) override;

  // Whether anything was published since the last call: peers that sleep must be woken.
  bool take_published() { return std::exchange(published_, false); }

 private:
  struct Link {
    Link(const Segment& mine, uint32_t self, const Segment& theirs, uint32_t peer);
    SwapBuffers swaps;
    RingWriter out;
    RingReader in;
    bool broken = false;
  };

  std::vector<std::shared_ptr<Segment>> segments_;
  uint32_t self_;
  size_t max_payload_;
  std::vector<std::unique_ptr<Link>> links_;  // by local rank; null: the own one
  bool published_ = false;
};

}  // namespace floe
