#include "fabric/receives.h"

namespace floe::fabric {

Status Receives::reserve(size_t count, size_t most_posted) {
  most_posted_ = most_posted;
  FLOE_TRY(buffers_.reserve(count));
  while (Slot* const slot = buffers_.take()) unposted_.push_back(slot);
  return post();
}

Status Receives::repost(Slot& slot) {
  unposted_.push_back(&slot);
  return post();
}

Status Receives::post() {
  while (!unposted_.empty() && posted_ < most_posted_) {
    const ssize_t code = endpoint_.receive(*unposted_.back(), buffers_.slot_bytes());
    if (code == -FI_EAGAIN) return {};
    if (code != 0) return endpoint_.failed("fi_recv", static_cast<int>(code));
    unposted_.pop_back();
    ++posted_;
  }
  return {};
}

void Receives::cancel() {
  for (Slot& slot : buffers_.slots()) endpoint_.cancel(slot);
}

}  // namespace floe::fabric
