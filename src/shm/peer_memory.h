// The memory of another rank's process, as far as the kernel lets this one read it: process_vm_readv(2),
// which needs what ptrace(2) needs. It saves the copy that the peer would have to make into shared memory
// first.
//
// Reading harms nobody, but what was read may be rubbish, or not be there, once the peer no longer means it
// to be read. It says so by its state (RankState) before it returns to its caller, and who has read looks at
// that afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "shm/segment.h"

namespace floe {

// Copies what is at `address` of the process that the segment is of. An error: that can't be read, or the
// peer has left or failed meanwhile, and `to` holds anything.
Status read_memory_of(const Segment& peer, uint64_t address, std::span<std::byte> to);

}  // namespace floe
