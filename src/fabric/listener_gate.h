// Who gets to the socket that a provider listens on: hosts of peers, and nobody else. libfabric 1.17 keeps
// every connection that a stranger makes, and one that announces data which never comes holds up all
// progress.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace floe::fabric {

class ListenerGate {
 public:
  // Shuts the TCP socket of this process that listens at an endpoint's name (fi_getname's bytes, of
  // libfabric's address format). Without one, as of providers that use no sockets, there is nothing to guard.
  void shut(const std::string& name, uint32_t format);
  // From now on the host of the endpoint with this name may connect. Its packets must come from that address.
  void admit(const std::string& name);

 private:
  bool is_listener(int fd) const;
  void attach();

  int fd_ = -1;                  // the provider's
  std::string own_;              // address and port, as a sockaddr's bytes
  std::set<std::string> hosts_;  // IP addresses, 4 bytes or 16
};

}  // namespace floe::fabric
