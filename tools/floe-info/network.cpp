#include "network.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/fd.h"
#include "boot/host.h"
#include "fabric/fabric_transport.h"
#include "fabric/interface.h"

namespace floe::info {
namespace {

std::string text_of(const sockaddr& address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  ::getnameinfo(&address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

uint32_t mtu_of(int socket, const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  return ::ioctl(socket, SIOCGIFMTU, &request) == 0 ? static_cast<uint32_t>(request.ifr_mtu) : 0;
}

int64_t megabits_of(int socket, const char* name) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (::ioctl(socket, SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t speed = ethtool_cmd_speed(&command);
  return speed == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : speed;
}

// The addresses that a name stands for; empty: none.
std::vector<std::string> resolve(const std::string& name) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::vector<std::string> addresses;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return addresses;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* i = list; i; i = i->ai_next) addresses.push_back(text_of(*i->ai_addr));
  return addresses;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

uint32_t local_ranks_of(uint32_t size) {
  for (const char* const name :
       {"LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"})
    if (const char* const text = std::getenv(name))
      if (const auto ranks = std::strtoul(text, nullptr, 10); ranks >= 1 && ranks <= size)
        return static_cast<uint32_t>(ranks);
  return 1;
}

void check_names(Findings& findings, const Job& job) {
  const std::string host = host_identity().hostname;
  const auto own = resolve(host);
  if (own.empty())
    findings.note("name", fmt::format("{} stands for no address", host),
                  "floe does not need it, launchers may: add it to DNS or to /etc/hosts");
  else
    findings.good("name", fmt::format("{} is {}", host, own.front()));
  if (!job.launch) return;
  const std::string& master = job.launch->address;
  const auto addresses = resolve(master);
  if (addresses.empty())
    return findings.wrong(
        "MASTER_ADDR", fmt::format("{} stands for no address on this host", master),
        "set it to the IP address of rank 0's host, or add the name to DNS or to /etc/hosts");
  const bool loopback = std::all_of(addresses.begin(), addresses.end(), is_loopback);
  if (loopback && job.several_hosts())
    return findings.wrong("MASTER_ADDR",
                          fmt::format("{} is this host itself, which has {} of {} ranks", master,
                                      job.local_ranks, job.launch->size),
                          "set it, on all hosts, to an address of rank 0's host that the others can reach");
  const std::string source = fabric::address_towards(master);
  if (source.empty() && !loopback)
    return findings.wrong("MASTER_ADDR",
                          fmt::format("there is no route to {} ({})", master, addresses.front()),
                          "connect this host to that network: ip route get " + addresses.front());
  findings.good("MASTER_ADDR", fmt::format("{} ({}), {}", master, addresses.front(),
                                           loopback ? "this host" : "reached from " + source));
}

std::string speed_text(const Interface& i) {
  return i.megabits == 0 ? "speed unknown"
                         : fmt::format("{:g} Gbit/s", static_cast<double>(i.megabits) / 1000);
}

void check_interfaces(Findings& findings, const std::vector<Interface>& all,
                      const std::optional<Interface>& used) {
  constexpr uint32_t kEthernet = 1500;
  constexpr int64_t kFast = 10'000;
  for (const Interface& i : all) {
    if (i.loopback) continue;
    const bool chosen = used && used->name == i.name && used->address == i.address;
    const std::string text = fmt::format("{} {}, MTU {}, {}{}", i.name, i.address, i.mtu, speed_text(i),
                                         chosen ? ": floe uses it between hosts" : "");
    if (chosen && i.mtu != 0 && i.mtu < kEthernet)
      findings.note(
          "interface", text,
          fmt::format("small packets cost CPU time: ip link set {} mtu {}, if the network carries that",
                      i.name, kEthernet));
    else if (chosen && i.mtu == kEthernet && i.megabits > kFast)
      findings.note(
          "interface", text,
          fmt::format(
              "frames of 9000 bytes take less CPU time: ip link set {} mtu 9000, if all switches carry them",
              i.name));
    else
      findings.good("interface", text);
  }
}

// Free ports of FLOE_PORT_RANGE: two for each rank of a host.
void check_ports(Findings& findings, const PortRange& range, uint32_t ranks) {
  if (range.first == 0) return findings.good("ports", "any that are free");
  uint32_t free = 0;
  for (uint32_t port = range.first; port <= range.last; ++port) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    free += ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 1 : 0;
  }
  const std::string text = fmt::format("{} of FLOE_PORT_RANGE={} are free", free, range.to_text());
  if (free < 2 * ranks)
    findings.wrong(
        "ports", text,
        fmt::format("{} ranks on this host need {}: widen FLOE_PORT_RANGE, and the firewall's rule", ranks,
                    2 * ranks));
  else
    findings.good("ports", text);
}

}  // namespace

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const fabric::Interface& i : fabric::interfaces())
    found.push_back({i.name, i.address, mtu_of(socket.get(), i.name.c_str()),
                     megabits_of(socket.get(), i.name.c_str()), i.loopback});
  return found;
}

Job job_of(const Settings& settings) {
  Job job;
  auto launch = discover_launch(settings);
  if (launch.ok()) {
    job.local_ranks = local_ranks_of(launch->size);
    job.launch = std::move(*launch);
  } else if (has_launcher()) {
    job.problem = launch.status().message();
  }
  return job;
}

std::optional<Interface> check_network(Findings& findings, const Settings& settings, const Job& job) {
  check_names(findings, job);
  const auto all = interfaces();
  std::optional<Interface> used;
  FabricOptions options;
  options.provider = settings.provider;
  options.interface = settings.interface;
  options.route_to = job.launch ? job.launch->address : "";
  options.ports = settings.port_range;
  options.rails = settings.rails;
  options.always_registers = settings.always_registers;
  const auto fabric = FabricTransport::open(options);
  if (fabric.ok()) {
    const auto of_it = [&](const Interface& i) { return i.address == (*fabric)->host_address(); };
    if (const auto i = std::find_if(all.begin(), all.end(), of_it); i != all.end()) used = *i;
  }
  check_interfaces(findings, all, used);
  if (fabric.ok())
    findings.good("provider", fmt::format("{} at {}", (*fabric)->name(), (*fabric)->host_address()));
  else if (job.several_hosts() || fabric.status().code() == FLOE_ERR_ENVIRONMENT)
    findings.wrong("provider", fabric.status().message(), "");
  else
    findings.note("provider", fabric.status().message(),
                  "ranks of one host do without; between hosts install libfabric (libfabric1)");
  check_ports(findings, settings.port_range, job.local_ranks);
  return used;
}

}  // namespace floe::info
