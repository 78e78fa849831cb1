// Which libfabric provider carries the packets, and from which of this host's network interfaces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric_transport.h"
#include "fabric/libfabric.h"

namespace floe::fabric {

// One network interface of a provider.
struct Provider {
  std::string name;  // exactly as libfabric says it, such as "tcp;ofi_rxm"
  Libfabric::Info info;
  std::string address;            // of this host, towards the others
  bool always_registers = false;  // FLOE_FABRIC_MR=always
};

// The providers to try for FLOE_PROVIDER's value, best first. "tcp" and "net" are one provider, which was
// renamed: `net` in 1.17, where `tcp` is another one that has no reliable-datagram endpoints.
std::vector<std::string> provider_candidates(const Libfabric& lib, std::string_view asked);

// The IP addresses, as many as there are rails.
Result<std::vector<std::string>> own_addresses(const FabricOptions& options);

// The interfaces of provider `name`, one for each rail; none if it has fewer, or does not do what floe needs.
// Where it has several for one rail: those whose link is up, the fastest first.
std::vector<Provider> find_nics(const Libfabric& lib, const std::string& name,
                                const std::vector<std::string>& addresses, const FabricOptions& options);

// The error when no candidate would do: `tried` says why those would not that looked as if.
Status no_provider(const Libfabric& lib, const std::vector<std::string>& addresses,
                   const FabricOptions& options, std::string_view tried);

}  // namespace floe::fabric
