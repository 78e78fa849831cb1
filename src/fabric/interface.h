// Which address of this host an endpoint binds to.
#pragma once

#include <string>

#include "base/status.h"

namespace floe::fabric {

// The address, as text, of interface `name`; IPv4 before IPv6, link-local addresses never. The error lists
// the interfaces that there are.
Result<std::string> address_of_interface(const std::string& name);

// The address that packets to `host` (a name or an IP) leave from; "" if it cannot be resolved, is not
// routed, or leads to loopback, where no other host arrives.
std::string address_towards(const std::string& host);

// The address on the default route, else of the first interface that is up, else loopback.
std::string default_address();

}  // namespace floe::fabric
