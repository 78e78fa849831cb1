#include "fabric/provider.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fabric/interface.h"
#include "fabric/registration.h"

namespace floe::fabric {
namespace {

// Over IP: its endpoints bind to an address of ours.
bool is_over_ip(std::string_view provider) {
  return provider.starts_with("net") || provider.starts_with("tcp") || provider.starts_with("udp") ||
         provider == "sockets";
}

// Reliable datagrams, plain messages, in order.
Libfabric::Info make_hints(const Libfabric& lib, const char* provider, const FabricOptions& options) {
  Libfabric::Info hints = lib.new_info();
  hints->caps = FI_MSG;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // one thread at a time, by Transport's contract
  // Providers that need no registration grant the old mode, and then take what is registered.
  hints->domain_attr->mr_mode = options.always_registers ? int{FI_MR_BASIC} : Registrations::kHandled;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  if (provider) hints->fabric_attr->prov_name = ::strdup(provider);
  return hints;
}

// Down after up, then by speed; as libfabric lists them if it does not know.
std::pair<bool, size_t> worth(const fi_info* info) {
  const fi_link_attr* const link = info->nic ? info->nic->link_attr : nullptr;
  return link ? std::pair(link->state != FI_LINK_DOWN, link->speed) : std::pair(true, size_t{0});
}

// At most `count` devices of the provider, the best first; at `address` if that is not empty.
std::vector<Libfabric::Info> query(const Libfabric& lib, const std::string& provider,
                                   const std::string& address, size_t count, const FabricOptions& options) {
  const Libfabric::Info hints = make_hints(lib, provider.c_str(), options);
  const bool bound = !address.empty();
  int code = 0;
  const Libfabric::Info list =
      lib.getinfo(bound ? address.c_str() : nullptr, bound ? FI_SOURCE : 0, hints.get(), &code);
  std::vector<const fi_info*> found;
  // 1.17 answers "tcp" with "tcp;ofi_rxm": a name that is merely similar is not what was asked for.
  for (const fi_info* i = list.get(); i; i = i->next)
    if (provider == i->fabric_attr->prov_name) found.push_back(i);
  std::stable_sort(found.begin(), found.end(),
                   [](const fi_info* x, const fi_info* y) { return worth(x) > worth(y); });
  std::vector<Libfabric::Info> devices;
  for (const fi_info* const i : found) {
    const auto is_same = [&](const auto& known) {
      return std::strcmp(known->domain_attr->name, i->domain_attr->name) == 0;
    };
    if (devices.size() < count && std::none_of(devices.begin(), devices.end(), is_same))
      devices.push_back(lib.copy(i));
  }
  return devices;
}

// "net (eth0, lo), shm (shm)": what there is, by provider, with its devices.
std::string offered(const Libfabric& lib, const FabricOptions& options) {
  const Libfabric::Info hints = make_hints(lib, nullptr, options);
  int code = 0;
  const Libfabric::Info list = lib.getinfo(nullptr, 0, hints.get(), &code);
  std::vector<std::pair<std::string, std::vector<std::string>>> providers;
  for (const fi_info* i = list.get(); i; i = i->next) {
    auto known = std::find_if(providers.begin(), providers.end(),
                              [&](const auto& p) { return p.first == i->fabric_attr->prov_name; });
    if (known == providers.end())
      known = providers.insert(known, {i->fabric_attr->prov_name, std::vector<std::string>()});
    auto& devices = known->second;
    if (std::find(devices.begin(), devices.end(), i->domain_attr->name) == devices.end())
      devices.emplace_back(i->domain_attr->name);
  }
  std::string text;
  for (const auto& [name, devices] : providers)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, fmt::join(devices, ", "));
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<std::string> provider_candidates(const Libfabric& lib, std::string_view asked) {
  const std::string tcp = lib.at_least(1, 18) ? "tcp" : "net";
  if (asked.empty()) return {"verbs;ofi_rxm", "efa", "psm3", "psm2", "cxi", tcp, "tcp;ofi_rxm"};
  if (asked == "tcp" || asked == "net") return {tcp};
  return {std::string(asked)};
}

Result<std::vector<std::string>> own_addresses(const FabricOptions& options) {
  // Nothing stripes over loopback, but all that stripes runs there.
  if (options.interface.empty() && options.one_host)
    return std::vector<std::string>(options.rails, "127.0.0.1");
  const auto list = InterfaceList::parse(options.interface);
  if (!list.ok()) return list.status();
  std::string routed = address_towards(options.route_to);
  if (routed.empty()) routed = default_address();
  return choose_addresses(interfaces(), *list, routed, options.rails);
}

std::vector<Provider> find_nics(const Libfabric& lib, const std::string& name,
                                const std::vector<std::string>& addresses, const FabricOptions& options) {
  std::vector<Provider> nics;
  const auto add = [&](Libfabric::Info info) {
    nics.push_back({name, std::move(info), addresses[nics.size()], options.always_registers});
  };
  // The user's interfaces also tell verbs its cards, by their IP addresses. Others find theirs by themselves.
  const bool by_address = is_over_ip(name) || (name.starts_with("verbs") && !options.interface.empty());
  if (by_address) {
    for (const std::string& address : addresses)
      for (auto& info : query(lib, name, address, 1, options)) add(std::move(info));
  } else {
    for (auto& info : query(lib, name, "", options.rails, options)) add(std::move(info));
  }
  if (nics.size() < options.rails) nics.clear();
  return nics;
}

Status no_provider(const Libfabric& lib, const std::vector<std::string>& addresses,
                   const FabricOptions& options, std::string_view tried) {
  const std::string has = fmt::format("it offers, with their devices: {}{}", offered(lib, options), tried);
  const std::string where = fmt::format("{}", fmt::join(addresses, " and "));
  if (options.provider.empty())
    return error(
        FLOE_ERR_TRANSPORT,
        "libfabric {} has no provider that floe can use from address {}; {}; set FLOE_PROVIDER to one "
        "of these, FLOE_IFNAME to another interface, or FLOE_RAILS to less",
        lib.version(), where, has);
  return error(FLOE_ERR_ENVIRONMENT,
               "FLOE_PROVIDER='{}': libfabric {} has no such provider for floe at address {}; {}; set "
               "FLOE_PROVIDER to one of these or unset it",
               options.provider, lib.version(), where, has);
}

}  // namespace floe::fabric
