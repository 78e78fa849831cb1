// The posted receive buffers. The invariant of this layer: for every packet that a peer has a credit for one
// is posted, so that to the provider no message is ever unexpected.
#pragma once

#include <vector>

#include "fabric/buffers.h"
#include "fabric/endpoint.h"

namespace floe::fabric {

class Receives {
 public:
  Receives(Endpoint& endpoint, Rail& rail, size_t slot_bytes)
      : endpoint_(endpoint), buffers_(endpoint, rail, Slot::Use::kReceive, slot_bytes) {}

  // Makes `count` buffers in all and posts them.
  Status reserve(size_t count);
  // Posts `slot` again, now or, if the provider has no room for it, later.
  Status repost(Slot& slot);
  // Posts what the provider had no room for.
  Status post();

  // Asks for every posted buffer back; each comes as a failed completion.
  void cancel();
  size_t posted() const { return buffers_.size() - unposted_.size(); }

 private:
  Endpoint& endpoint_;
  Buffers buffers_;
  std::vector<Slot*> unposted_;
};

}  // namespace floe::fabric
