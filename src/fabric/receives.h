// The receive buffers. The invariant of this layer: for every packet that a peer has a credit for there is
// one, and it is posted, so that to the provider no message is ever unexpected. Over sockets, where what
// nobody has posted a receive for waits in them at no cost, only a few are posted: they are filled in the
// order in which they were posted, and few of them stay in the cache.
#pragma once

#include <vector>

#include "fabric/buffers.h"
#include "fabric/endpoint.h"

namespace floe::fabric {

class Receives {
 public:
  Receives(Endpoint& endpoint, Rail& rail, size_t slot_bytes)
      : endpoint_(endpoint), buffers_(endpoint, rail, Slot::Use::kReceive, slot_bytes) {}

  // Makes `count` buffers in all, of which `most_posted` are posted at a time.
  Status reserve(size_t count, size_t most_posted);
  // One has been filled, or taken back.
  void ended() { --posted_; }
  // Posts `slot` again, now or later.
  Status repost(Slot& slot);
  // Posts what may be posted and the provider has room for.
  Status post();

  // Asks for every posted buffer back; each comes as a failed completion.
  void cancel();
  size_t posted() const { return posted_; }

 private:
  Endpoint& endpoint_;
  Buffers buffers_;
  std::vector<Slot*> unposted_;  // the one used last is the last
  size_t posted_ = 0, most_posted_ = 0;
};

}  // namespace floe::fabric
