#include "process.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <memory>
#include <mutex>

#include "errors.h"

namespace floe::gloo_transport {
namespace {

// "" if it has none; addresses of one link only are of no use without the link's name.
std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* raw = nullptr;
  if (address && address->sa_family == AF_INET) {
    raw = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address && address->sa_family == AF_INET6) {
    const auto* in6 = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(in6)) raw = in6;
  }
  return raw && inet_ntop(address->sa_family, raw, text.data(), text.size()) ? text.data() : "";
}

std::string address_of(const std::string& interface) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(all, &freeifaddrs);
  std::string found;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (interface != one->ifa_name) continue;
    std::string text = text_of(one->ifa_addr);
    if (text.empty()) continue;
    if (one->ifa_addr->sa_family == AF_INET) return text;
    found = text;
  }
  return found;
}

}  // namespace

floe_context_t* process_context() {
  static std::mutex mutex;
  static floe_context_t* context = nullptr;
  static pid_t owner = 0;

  const std::lock_guard lock(mutex);
  if (context && owner == getpid()) return context;
  // The first use, or a forked child: the parent's context has no threads here.
  floe_context_config_t config = FLOE_CONTEXT_CONFIG_INIT;
  config.workers = 1;  // Gloo's operations advance by themselves
  floe_context_t* created = nullptr;
  if (floe_context_create(&config, &created) != FLOE_OK) {
    throw ::gloo::IoException(std::string("floe: making a Gloo device: ") + floe_last_error());
  }
  context = created;
  owner = getpid();
  return context;
}

std::string host_address(const std::string& interface, const std::string& hostname) {
  if (!interface.empty()) {
    std::string address = address_of(interface);
    if (address.empty()) {
      throw ::gloo::InvalidOperationException("floe: the network interface '" + interface +
                                              "' does not exist, or has no address");
    }
    return address;
  }
  std::array<char, HOST_NAME_MAX + 1> own{};
  if (hostname.empty() && gethostname(own.data(), own.size() - 1) != 0) return "127.0.0.1";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::string name = hostname.empty() ? own.data() : hostname;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return hostname.empty() ? "127.0.0.1" : name;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &freeaddrinfo);
  for (const addrinfo* one = found; one; one = one->ai_next) {
    if (std::string address = text_of(one->ai_addr); !address.empty()) return address;
  }
  return name;
}

}  // namespace floe::gloo_transport
