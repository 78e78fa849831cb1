#include "boot/host.h"

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <fstream>

#include "base/log.h"
#include "boot/random.h"

namespace floe {
namespace {

// "pid:[4026531836]", or nothing if /proc is not there.
std::string namespace_of(const char* kind) {
  char target[64];
  const ssize_t size = ::readlink(fmt::format("/proc/self/ns/{}", kind).c_str(), target, sizeof target);
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : std::string();
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace

HostIdentity host_identity() {
  char hostname[HOST_NAME_MAX + 1] = "unknown";
  if (::gethostname(hostname, sizeof hostname - 1) != 0) hostname[0] = '\0';

  const std::string boot = boot_id(), net = namespace_of("net"), pid = namespace_of("pid");
  if (boot.empty() || net.empty() || pid.empty()) {
    // Without proof this process shares memory with nobody: a slow job rather than a wrong guess.
    log(LogLevel::kInfo, "/proc does not tell boot id and namespaces: no shared memory with other ranks");
    return {"unproved-" + random_hex(16), hostname};
  }
  return {fmt::format("{}/{}/{}/uid:{}", boot, net, pid, ::geteuid()), hostname};
}

bool in_different_networks(std::string_view a, std::string_view b) {
  const auto network = [](std::string_view id) { return id.substr(0, id.find('/', id.find('/') + 1)); };
  const bool proved = a.find('/') != a.npos && b.find('/') != b.npos;
  return proved && network(a) != network(b);
}

}  // namespace floe
