#include "fabric/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/fd.h"

namespace floe::fabric {
namespace {

struct Interface {
  std::string name;
  std::string address;  // as text
  int family = AF_UNSPEC;
  bool loopback = false;
};

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* const bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  ::inet_ntop(address->sa_family, bytes, text, sizeof text);
  return text;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// Every usable address of the interfaces that are up: IPv4 first.
std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    const sockaddr* const a = i->ifa_addr;
    if (!a || !(i->ifa_flags & IFF_UP) || (a->sa_family != AF_INET && a->sa_family != AF_INET6)) continue;
    if (a->sa_family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr))
      continue;
    found.push_back({i->ifa_name, text_of(a), a->sa_family, (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& x, const auto& y) { return x.family == AF_INET && y.family != AF_INET; });
  return found;
}

// The kernel's choice of a source address; connecting a datagram socket sends nothing.
std::string source_towards(const sockaddr* target, socklen_t size) {
  const UniqueFd fd(::socket(target->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), target, size) != 0) return "";
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(fd.get(), address, &own_size) != 0 || is_loopback(address)) return "";
  return text_of(address);
}

}  // namespace

Result<std::string> address_of_interface(const std::string& name) {
  const std::vector<Interface> all = interfaces();
  std::string listed;
  for (const Interface& i : all) {
    if (i.name == name) return i.address;
    listed += fmt::format("{}{} ({})", listed.empty() ? "" : ", ", i.name, i.address);
  }
  return error(FLOE_ERR_ENVIRONMENT,
               "FLOE_IFNAME='{}': no interface of that name is up and has an address; use {}", name,
               listed.empty() ? "none: there is no interface" : listed);
}

std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  constexpr const char* kAnyService = "1";
  if (host.empty() || ::getaddrinfo(host.c_str(), kAnyService, &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* i = list; i; i = i->ai_next)
    if (std::string source = source_towards(i->ai_addr, i->ai_addrlen); !source.empty()) return source;
  return "";
}

std::string default_address() {
  // Documentation addresses (RFC 5737, RFC 3849): nobody's own network, so the default route answers.
  for (const char* const anywhere : {"198.51.100.1", "2001:db8::1"})
    if (std::string source = address_towards(anywhere); !source.empty()) return source;
  for (const Interface& i : interfaces())
    if (!i.loopback) return i.address;
  return "127.0.0.1";
}

}  // namespace floe::fabric
