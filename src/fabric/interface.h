// Which addresses of this host the endpoints bind to.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace floe::fabric {

// One address of an interface that is up; never a link-local one.
struct Interface {
  std::string name;
  std::string address;  // as text
  int family = 0;       // AF_INET, AF_INET6
  bool loopback = false;
};

// In the system's order, IPv4 before IPv6.
std::vector<Interface> interfaces();

// FLOE_IFNAME, in NCCL's syntax: names or what they begin with (eth,ib0), after = whole names (=eth0,eth1),
// after ^ all but these (^lo,docker, ^=eth0).
class InterfaceList {
 public:
  static Result<InterfaceList> parse(std::string_view text);

  // Names what is wanted, rather than what is not.
  bool names_some() const { return !words_.empty() && !excludes_; }
  // Where in the list the first word stands that admits this interface: the lower, the better.
  std::optional<size_t> place_of(std::string_view interface) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> words_;
  bool excludes_ = false, exact_ = false;
};

// The addresses of `count` interfaces of `all`, one of each and all of one family: in the list's order if it
// names some, then the one with the address `routed`, then as the system lists them. Loopback and Docker's
// are the last unless they are named. FLOE_ERR_ENVIRONMENT if there are fewer; it lists those that there are.
Result<std::vector<std::string>> choose_addresses(std::span<const Interface> all, const InterfaceList& list,
                                                  const std::string& routed, size_t count);

// The address that packets to `host` (a name or an IP) leave from; "" if it cannot be resolved, is not
// routed, or leads to loopback, where no other host arrives.
std::string address_towards(const std::string& host);

// The address on the default route, or "".
std::string default_address();

}  // namespace floe::fabric
