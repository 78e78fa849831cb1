#include "shm/peer_memory.h"

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace floe {

Status read_memory_of(const Segment& peer, uint64_t address, std::span<std::byte> to) {
  const SegmentHeader& header = peer.header();
  // Behind the data, and in the same call, comes the nonce from where that process has it: it is the peer,
  // and not one that has got its pid since.
  uint64_t nonce = 0;
  const std::array<iovec, 2> here{{{to.data(), to.size()}, {&nonce, sizeof nonce}}};
  const std::array<iovec, 2> there{{{reinterpret_cast<void*>(address), to.size()},
                                    {reinterpret_cast<void*>(header.nonce_at), sizeof nonce}}};
  const ssize_t got = ::process_vm_readv(static_cast<pid_t>(header.pid), here.data(), here.size(),
                                         there.data(), there.size(), 0);
  if (got < 0) return system_error("process_vm_readv", errno);
  if (static_cast<size_t>(got) != to.size() + sizeof nonce || nonce != header.nonce)
    return error(FLOE_ERR_SYSTEM, "process_vm_readv: {} of {} bytes, or of another process", got,
                 to.size() + sizeof nonce);
  // As a seqlock's reader does: pairs with the fence in Group::publish_state(). If any of this is from after
  // the peer's callers have their memory back, its state has changed.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (header.state.load(std::memory_order_relaxed) != static_cast<uint32_t>(RankState::kAlive))
    return error(FLOE_ERR_PEER, "its part has ended");
  return {};
}

}  // namespace floe
