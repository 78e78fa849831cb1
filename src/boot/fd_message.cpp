#include "boot/fd_message.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace floe {
namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;  // Linux 6.5
#endif

struct alignas(cmsghdr) FdSpace {
  char bytes[CMSG_SPACE(kMaxExchangedFds * sizeof(int))] = {};
};

FdMessage receive_once(int socket, std::span<std::byte> buffer) {
  FdMessage result;
  iovec data{buffer.data(), buffer.size()};
  FdSpace space;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof space.bytes;
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    result.problem = errno;
    return result;
  }
  result.bytes = static_cast<size_t>(got);
  result.truncated = (message.msg_flags & MSG_TRUNC) != 0;
  result.fds_missing = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
      result.fds.emplace_back(fd);
    }
  }
  return result;
}

}  // namespace

std::optional<PeerCredentials> peer_credentials(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return PeerCredentials{credentials.pid, credentials.uid};
}

UniqueFd open_pidfd(pid_t pid) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

UniqueFd peer_pidfd(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return UniqueFd(fd);
  return open_pidfd(pid);
}

int send_with_fds(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  if (fds.size() > kMaxExchangedFds) return EINVAL;
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  FdSpace space;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes;
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* const control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

FdMessage receive_with_fds(int socket, std::span<std::byte> buffer) {
  FdMessage result = receive_once(socket, buffer);
  if (result.problem != 0 || result.bytes != 0) return result;
  // Linux looks for a message first and for the end after that, and reports an end that came in between, with
  // the last message, as if there were none: once the end is seen, a second look finds what is there.
  FdMessage last = receive_once(socket, buffer);
  return last.bytes != 0 ? std::move(last) : std::move(result);
}

}  // namespace floe
