#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "boot/tcp_socket.h"

namespace floe::tcp {
namespace {

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr) >> 24 == 127;
  return address.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

Status listen_error(const std::string& address, uint16_t port, int problem) {
  if (problem == EADDRINUSE)
    return error(
        FLOE_ERR_STORE,
        "floe's store can't listen on port {} for {}: another program has this port. End that program, or "
        "set FLOE_STORE_PORT to a free port, the same on all ranks",
        port, address);
  return system_error(fmt::format("floe's store can't listen on port {} for {}", port, address), problem);
}

}  // namespace

Listening listen_at(const addrinfo& where, uint16_t port) {
  UniqueFd fd = open_socket(where);
  if (!fd.valid()) return {{}, 0, errno};
  // A connection that has ended lately does not keep its port.
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // [::] takes IPv4 as well; for any other address this changes nothing.
  if (where.ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);

  sockaddr_storage at{};
  std::copy_n(reinterpret_cast<const char*>(where.ai_addr), where.ai_addrlen, reinterpret_cast<char*>(&at));
  auto& port_field = where.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(at).sin6_port
                                                 : reinterpret_cast<sockaddr_in&>(at).sin_port;
  port_field = htons(port);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  socklen_t size = where.ai_addrlen;
  if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0 ||
      ::getsockname(fd.get(), address, &size) != 0)
    return {{}, 0, errno};
  return {std::move(fd), ntohs(port_field), 0};
}

Result<std::vector<UniqueFd>> listen_for(const std::string& address, uint16_t& port) {
  std::vector<UniqueFd> listeners;
  int problem = EADDRNOTAVAIL;
  // Of all names only "localhost" is taken for loopback: many hosts resolve their own name to 127.0.1.1,
  // where no other host would get through.
  const auto named = resolve(address.c_str(), 0, address == "localhost" ? 0 : AI_NUMERICHOST);
  for (const addrinfo* at = named.ok() ? named->get() : nullptr; at; at = at->ai_next) {
    Listening attempt = listen_at(*at, port);
    if (attempt.problem == EADDRINUSE) return listen_error(address, port, EADDRINUSE);
    if (attempt.fd.valid()) {
      port = attempt.port;
      listeners.push_back(std::move(attempt.fd));
    } else {
      problem = attempt.problem;
    }
  }
  if (!listeners.empty()) return listeners;
  if (named.ok() && is_loopback(**named)) return listen_error(address, port, problem);

  // A name, or an address that is translated on its way here.
  const auto any = resolve(nullptr, 0, AI_PASSIVE);
  if (!any.ok()) return any.status();
  for (const int family : {AF_INET6, AF_INET})  // 0.0.0.0 where the kernel has no IPv6
    for (const addrinfo* at = any->get(); at; at = at->ai_next) {
      if (at->ai_family != family) continue;
      Listening attempt = listen_at(*at, port);
      if (attempt.problem == EADDRINUSE) return listen_error(address, port, EADDRINUSE);
      problem = attempt.problem;
      if (!attempt.fd.valid()) continue;
      port = attempt.port;
      listeners.push_back(std::move(attempt.fd));
      return listeners;
    }
  return listen_error(address, port, problem);
}

}  // namespace floe::tcp
