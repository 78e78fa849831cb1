// TCP connections inside this process, for what stands between hosts.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "base/fd.h"

namespace floe::test {

// Two connected sockets on loopback that do not block.
inline std::pair<UniqueFd, UniqueFd> tcp_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  UniqueFd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), address, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), address, &size) != 0 || ::connect(caller.get(), address, size) != 0)
    return {};
  return {std::move(caller), UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

}  // namespace floe::test
