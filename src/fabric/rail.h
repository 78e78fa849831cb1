// A rail: the endpoint of one network interface, and the buffers that are posted to it and sent from it.
// Packets to a peer go over all rails, each to the peer's rail of the same number.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "fabric/buffers.h"
#include "fabric/endpoint.h"
#include "fabric/link.h"
#include "fabric/receives.h"

namespace floe::fabric {

class Rail {
 public:
  Rail(std::unique_ptr<Endpoint> endpoint, size_t index);

  size_t index() const { return index_; }
  Endpoint& endpoint() { return *endpoint_; }
  const Endpoint& endpoint() const { return *endpoint_; }

  // Buffers for `links` links; receives are posted.
  Status reserve(size_t links);
  // A receive has ended: its buffer is the caller's until it is posted again.
  void received() { receives_.ended(); }
  Status repost(Slot& slot) { return receives_.repost(slot); }
  // Posts what could not be, so far.
  Status post() { return receives_.post(); }

  // A free packet's buffer, or null.
  Slot* take_packet() { return packets_.take(); }
  // That of a new link, for good.
  Slot* take_credit() { return credits_.take(); }
  void give_back(Slot& packet) { packets_.give_back(packet); }

  // 0, -FI_EAGAIN (not now) or another -FI_E...
  ssize_t send(uint64_t address, Slot& slot, size_t bytes);
  // A send has ended; a packet's buffer is free again.
  void ended(Slot& slot);
  size_t sends_in_flight() const { return sends_in_flight_; }
  size_t bytes_in_flight() const { return bytes_in_flight_; }

  // Whether every operation has been taken back before the deadline.
  bool take_back_everything(Deadline deadline);

 private:
  const size_t index_;
  const size_t slot_bytes_;
  size_t sends_in_flight_ = 0, bytes_in_flight_ = 0;
  // What the provider may touch until the endpoint is closed comes before it: it is destroyed after it.
  Receives receives_;
  Buffers packets_, credits_;
  std::unique_ptr<Endpoint> endpoint_;
};

// The rails of the best provider that works, as many as the options say. FLOE_ERR_ENVIRONMENT,
// FLOE_ERR_TRANSPORT; says what there is, and why it would not do.
using Rails = std::vector<std::unique_ptr<Rail>>;
Result<Rails> open_rails(const Libfabric& lib, const FabricOptions& options, uint64_t random);

}  // namespace floe::fabric
