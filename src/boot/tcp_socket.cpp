#include "boot/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace floe::tcp {

Result<Addresses> resolve(const char* host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int problem = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &list);
  if (problem != 0)
    return error(FLOE_ERR_STORE, "the address '{}' can't be resolved: {}", host ? host : "*",
                 problem == EAI_SYSTEM ? "system error" : ::gai_strerror(problem));
  return Addresses(list);
}

UniqueFd open_socket(const addrinfo& address) {
  return UniqueFd(
      ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

bool wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const auto ms = std::min<int64_t>(deadline.left().count(), std::numeric_limits<int>::max());
    const int ready = ::poll(&entry, 1, static_cast<int>(ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (deadline.passed()) return false;
  }
}

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void keep_alive(int fd) {
  // Asked every second, counted from the last answer: a silence of 4 to 5 s is seen, whenever it began.
  const int on = 1, second = 1, silence_ms = 5000, questions = 4;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

}  // namespace floe::tcp
