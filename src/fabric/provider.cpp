#include "fabric/provider.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <cstring>

#include "fabric/interface.h"

namespace floe::fabric {
namespace {

// Over IP: its endpoints bind to an address of ours. The others find their device by themselves.
bool is_bound_to_ip(std::string_view provider) {
  return provider.starts_with("net") || provider.starts_with("tcp") || provider.starts_with("udp") ||
         provider == "sockets";
}

// Reliable datagrams, plain messages, in order. Of mr_mode only what needs nothing from a user that has no
// remote memory access: a provider that wants even send buffers registered (FI_MR_LOCAL) is not offered.
Libfabric::Info make_hints(const Libfabric& lib, const char* provider) {
  Libfabric::Info hints = lib.new_info();
  hints->caps = FI_MSG;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // one thread at a time, by Transport's contract
  hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  if (provider) hints->fabric_attr->prov_name = ::strdup(provider);
  return hints;
}

Libfabric::Info query(const Libfabric& lib, const std::string& provider, const std::string& address) {
  const Libfabric::Info hints = make_hints(lib, provider.c_str());
  const bool bound = !address.empty();
  int code = 0;
  const Libfabric::Info list =
      lib.getinfo(bound ? address.c_str() : nullptr, bound ? FI_SOURCE : 0, hints.get(), &code);
  // 1.17 answers "tcp" with "tcp;ofi_rxm": a name that is merely similar is not what was asked for.
  for (const fi_info* i = list.get(); i; i = i->next)
    if (provider == i->fabric_attr->prov_name) return lib.copy(i);
  return lib.own(nullptr);
}

std::string offered(const Libfabric& lib) {
  const Libfabric::Info hints = make_hints(lib, nullptr);
  int code = 0;
  const Libfabric::Info list = lib.getinfo(nullptr, 0, hints.get(), &code);
  std::vector<std::string_view> names;
  for (const fi_info* i = list.get(); i; i = i->next)
    if (std::find(names.begin(), names.end(), i->fabric_attr->prov_name) == names.end())
      names.emplace_back(i->fabric_attr->prov_name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string> provider_candidates(const Libfabric& lib, std::string_view asked) {
  const std::string tcp = lib.at_least(1, 18) ? "tcp" : "net";
  if (asked.empty()) return {"verbs;ofi_rxm", "efa", "psm3", "psm2", "cxi", tcp, "tcp;ofi_rxm"};
  if (asked == "tcp" || asked == "net") return {tcp};
  return {std::string(asked)};
}

Result<std::vector<std::string>> own_addresses(const FabricOptions& options) {
  if (options.interface.empty() && options.one_host) return std::vector<std::string>(1, "127.0.0.1");
  const auto list = InterfaceList::parse(options.interface);
  if (!list.ok()) return list.status();
  std::string routed = address_towards(options.route_to);
  if (routed.empty()) routed = default_address();
  return choose_addresses(interfaces(), *list, routed, 1);
}

Result<Provider> choose_provider(const Libfabric& lib, const FabricOptions& options) {
  const auto addresses = own_addresses(options);
  if (!addresses.ok()) return addresses.status();
  const std::string& address = addresses->front();
  const std::string given = options.interface.empty() ? "" : address;
  for (const std::string& name : provider_candidates(lib, options.provider)) {
    const std::string& source = is_bound_to_ip(name) ? address : given;
    if (Libfabric::Info info = query(lib, name, name == "shm" ? "" : source))
      return Provider{name, std::move(info), address};
  }
  if (options.provider.empty())
    return error(
        FLOE_ERR_TRANSPORT,
        "libfabric {} has no provider that floe can use from address {} (it offers: {}); set FLOE_PROVIDER "
        "to one of these, or FLOE_IFNAME to another interface",
        lib.version(), address, offered(lib));
  return error(
      FLOE_ERR_ENVIRONMENT,
      "FLOE_PROVIDER='{}': libfabric {} has no such provider for floe at address {}; it offers: {}; set "
      "FLOE_PROVIDER to one of these or unset it",
      options.provider, lib.version(), address, offered(lib));
}

}  // namespace floe::fabric
