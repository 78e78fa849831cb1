#include "fabric/listener_gate.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/log.h"

namespace floe::fabric {
namespace {

// The IP address in a sockaddr's bytes; empty if it is of another kind.
std::string host_of(const std::string& name) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (name.size() >= sizeof v4) std::memcpy(&v4, name.data(), sizeof v4);
  if (v4.sin_family == AF_INET) return {reinterpret_cast<const char*>(&v4.sin_addr), sizeof v4.sin_addr};
  if (v4.sin_family != AF_INET6 || name.size() < sizeof v6) return {};
  std::memcpy(&v6, name.data(), sizeof v6);
  return {reinterpret_cast<const char*>(&v6.sin6_addr), sizeof v6.sin6_addr};
}

std::string port_of(const std::string& name) {  // at the same place in both
  return name.substr(offsetof(sockaddr_in, sin_port), sizeof(in_port_t));
}

bool is_any(const std::string& host) { return host.find_first_not_of('\0') == host.npos; }

// "If the packet's source is one of these, take it; else drop it": a comparison for each word of each.
std::vector<sock_filter> program(const std::set<std::string>& hosts) {
  constexpr uint32_t kSourceOfV4 = 12, kSourceOfV6 = 8, kTake = UINT32_MAX;
  std::vector<sock_filter> code;
  for (const std::string& host : hosts) {
    const size_t words = host.size() / sizeof(uint32_t);
    const uint32_t source = static_cast<uint32_t>(SKF_NET_OFF) + (words == 1 ? kSourceOfV4 : kSourceOfV6);
    for (size_t i = 0; i < words; ++i) {
      uint32_t word = 0;
      std::memcpy(&word, host.data() + i * sizeof word, sizeof word);
      const auto to_next_host = static_cast<uint8_t>(2 * (words - 1 - i) + 1);
      code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, source + static_cast<uint32_t>(i * sizeof word)));
      code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(word), 0, to_next_host));
    }
    code.push_back(BPF_STMT(BPF_RET | BPF_K, kTake));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  return code;
}

}  // namespace

bool ListenerGate::is_listener(int fd) const {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return false;
  std::string bound(sizeof(sockaddr_storage), '\0');
  size = static_cast<socklen_t>(bound.size());
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(bound.data()), &size) != 0) return false;
  const std::string host = host_of(bound), own = host_of(own_);
  // Another rail's may have the same port, at its own address.
  return host.size() == own.size() && (host == own || is_any(host)) && port_of(bound) == port_of(own_);
}

void ListenerGate::shut(const std::string& name, uint32_t format) {
  if ((format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6) || host_of(name).empty()) return;
  own_ = name;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    const std::string text = entry.path().filename();
    int fd = -1;
    std::from_chars(text.data(), text.data() + text.size(), fd);
    if (is_listener(fd)) fd_ = fd;
  }
  if (fd_ >= 0) attach();
}

void ListenerGate::admit(const std::string& name) {
  const std::string host = host_of(name);
  if (fd_ < 0 || host.empty() || !hosts_.insert(host).second) return;
  attach();
}

void ListenerGate::attach() {
  if (!is_listener(fd_)) return;
  std::vector<sock_filter> code = program(hosts_);
  sock_fprog filter{};
  filter.len = static_cast<unsigned short>(code.size());
  filter.filter = code.data();
  const bool fits = code.size() <= BPF_MAXINSNS;
  if (fits && ::setsockopt(fd_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0) return;
  log(LogLevel::kWarn, "fabric: libfabric's port is open to all hosts: a filter of {} hosts is refused: {}",
      hosts_.size(), fits ? std::strerror(errno) : "too many");
  int unused = 0;
  ::setsockopt(fd_, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
  fd_ = -1;
}

}  // namespace floe::fabric
