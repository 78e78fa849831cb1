// One message with descriptors over a SOCK_SEQPACKET Unix socket.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "boot/unix_exchange.h"

namespace floe {

// Who is at the other end, as the kernel says.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
std::optional<PeerCredentials> peer_credentials(int socket);

// A pidfd of the process at the other end; where the kernel can't tell (before 6.5), of `pid`. Invalid with
// errno set if there is none.
UniqueFd peer_pidfd(int socket, pid_t pid);
UniqueFd open_pidfd(pid_t pid);

// Sends all of `bytes` with `fds`, or nothing: returns 0 or errno. Does not block.
int send_with_fds(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

struct FdMessage {
  int problem = 0;           // errno; EAGAIN: nothing has arrived yet
  size_t bytes = 0;          // 0: the other end has closed
  bool truncated = false;    // it was longer than the buffer
  bool fds_missing = false;  // the kernel could not hand over all descriptors
  std::vector<UniqueFd> fds;
};
// Receives one message. Does not block. Descriptors are close-on-exec.
FdMessage receive_with_fds(int socket, std::span<std::byte> buffer);

}  // namespace floe
