// Over Gloo's tcp a send completes when the peer has posted its receive, and callers of send and recv rely on
// it: a send that nobody receives times out. floe's sends complete earlier. So the receiver of such a message
// tells its source, with a message of no bytes, that a receive is posted, and the source waits for that, too.
// The n-th of these belongs to the n-th send to that rank and slot, as receives meet sends in order.
#pragma once

#include <cstdint>

namespace floe::gloo_transport {

// Gloo's collectives, which do not need it, have their kind in the highest byte of their slots; PyTorch's
// tags and those of other callers are 0 there.
constexpr bool is_rendezvous(uint64_t slot) { return slot >> 56 == 0; }

constexpr uint64_t kPostedTags = 0xf2ULL << 56;
constexpr uint64_t posted_tag(uint64_t slot) { return kPostedTags | slot; }
constexpr bool is_posted_tag(uint64_t tag) { return tag >> 56 == kPostedTags >> 56; }

}  // namespace floe::gloo_transport
