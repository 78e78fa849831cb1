// Which libfabric provider carries the packets, and from which address.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric_transport.h"
#include "fabric/libfabric.h"

namespace floe::fabric {

struct Provider {
  std::string name;  // exactly as libfabric says it, such as "tcp;ofi_rxm"
  Libfabric::Info info;
  std::string address;  // of this host, towards the others
};

// The providers to try for FLOE_PROVIDER's value, best first. "tcp" and "net" are one provider, which was
// renamed: `net` in 1.17, where `tcp` is another one that has no reliable-datagram endpoints.
std::vector<std::string> provider_candidates(const Libfabric& lib, std::string_view asked);

Result<Provider> choose_provider(const Libfabric& lib, const FabricOptions& options);

}  // namespace floe::fabric
