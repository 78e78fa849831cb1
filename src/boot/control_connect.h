// Makes the control connections of one communicator: one of each host's ranks calls or is called by one of
// every other host's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/settings.h"
#include "base/status.h"
#include "boot/control_handshake.h"

namespace floe {

class ControlListener {
 public:
  // At an IP address of this host; the port is one of `ports`.
  static Result<ControlListener> create(const std::string& address, PortRange ports);

  const std::string& address() const { return address_; }  // with the port, for connect_hosts on other hosts
  int fd() const { return socket_.get(); }

 private:
  ControlListener(UniqueFd socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  UniqueFd socket_;
  std::string address_;
};

struct ControlPeer {
  std::string host;     // for people
  std::string address;  // its ControlListener's; it came from the store
};

// Calls the hosts before `terms.self`, and is called by those after it: one proven connection to each, by
// number, the own one invalid. Strangers cost at most 64 sockets for 2 s each. Blocking, until the deadline
// at most: FLOE_ERR_TIMEOUT names the hosts that are missing and what went wrong last, FLOE_ERR_MISMATCH one
// that differs. `interrupted` is asked some times a second: an error ends it, too.
Result<std::vector<UniqueFd>> connect_hosts(const ControlListener& listener,
                                            std::span<const ControlPeer> hosts, const control::Terms& terms,
                                            Deadline deadline, const std::function<Status()>& interrupted);

}  // namespace floe
