#include "fabric/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>

#include "base/fd.h"

namespace floe::fabric {
namespace {

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

Result<InterfaceList> InterfaceList::parse(std::string_view text) {
  InterfaceList list;
  list.text_ = text;
  if (text.empty()) return list;
  const auto take = [&](char mark) {
    const bool there = text.starts_with(mark);
    if (there) text.remove_prefix(1);
    return there;
  };
  list.excludes_ = take('^');
  list.exact_ = take('=');
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    list.words_.emplace_back(text.substr(0, comma));
    if (list.words_.back().empty())
      return error(
          FLOE_ERR_ENVIRONMENT,
          "FLOE_IFNAME='{}' has an empty name: use names or what they begin with, such as eth,ib0; whole "
          "names after =, as in =eth0; all but some after ^, as in ^docker",
          list.text_);
    more = comma != text.npos;
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return list;
}

std::optional<size_t> InterfaceList::place_of(std::string_view interface) const {
  const auto word = std::find_if(words_.begin(), words_.end(), [&](const std::string& w) {
    return exact_ ? interface == w : interface.starts_with(w);
  });
  if (!names_some()) return word == words_.end() ? std::optional<size_t>(0) : std::nullopt;
  return word == words_.end() ? std::nullopt : std::optional<size_t>(word - words_.begin());
}

Result<std::vector<std::string>> choose_addresses(std::span<const Interface> all, const InterfaceList& list,
                                                  const std::string& routed, size_t count) {
  const auto routes =
      std::find_if(all.begin(), all.end(), [&](const auto& i) { return i.address == routed; });
  const auto order = [&](const Interface& i) {
    const int local = list.names_some() ? 0 : i.loopback ? 2 : i.name.starts_with("docker") ? 1 : 0;
    const bool elsewhere = routes == all.end() || i.name != routes->name;
    // Where the user names some, hosts that see different routes still agree on the family.
    const bool other_address = !list.names_some() && i.address != routed;
    return std::tuple(local, list.place_of(i.name), elsewhere, other_address);
  };
  std::vector<Interface> fit;
  std::copy_if(all.begin(), all.end(), std::back_inserter(fit),
               [&](const auto& i) { return list.place_of(i.name).has_value(); });
  std::stable_sort(fit.begin(), fit.end(), [&](const auto& x, const auto& y) { return order(x) < order(y); });

  std::vector<std::string> chosen, names;
  for (const Interface& i : fit) {
    if (chosen.size() == count) break;
    if (i.family != fit[0].family || std::find(names.begin(), names.end(), i.name) != names.end()) continue;
    if (!chosen.empty() && i.loopback != fit[0].loopback) continue;  // not a way to another host beside one
    chosen.push_back(i.address);
    names.push_back(i.name);
  }
  if (chosen.size() == count) return chosen;
  std::string listed;
  for (const Interface& i : all)
    listed += fmt::format("{}{} ({})", listed.empty() ? "" : ", ", i.name, i.address);
  return error(
      FLOE_ERR_ENVIRONMENT,
      "FLOE_IFNAME='{}' leaves {} usable interfaces for FLOE_RAILS={}; this host has up, with addresses: {}",
      list.text(), chosen.size(), count, listed.empty() ? "none" : listed);
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
  return "";
}

}  // namespace floe::fabric
