// TCP sockets: of the store, client's and server's, and between hosts.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace floe::tcp {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// getaddrinfo for stream sockets; `flags` as AI_PASSIVE. FLOE_ERR_STORE with its words.
Result<Addresses> resolve(const char* host, uint16_t port, int flags);

// A non-blocking, close-on-exec socket for this address; invalid with errno set if there is none.
UniqueFd open_socket(const addrinfo& address);

// poll(2) for one descriptor, not interrupted by signals. False at the deadline.
bool wait_for(int fd, short events, Deadline deadline);

struct Listening {
  UniqueFd fd;        // invalid: it can't
  uint16_t port = 0;  // the one that was wanted, or for 0 the one that the kernel chose
  int problem = 0;    // errno
};
Listening listen_at(const addrinfo& where, uint16_t port);

// Where the server listens for clients that are told `address`: the loopback interface if that is what it
// names, `address` alone if it is an IP address of this host, all interfaces otherwise. Port 0 becomes the
// port that the kernel chose.
Result<std::vector<UniqueFd>> listen_for(const std::string& address, uint16_t& port);

// Small messages go out at once.
void set_no_delay(int fd);

// The kernel ends the connection, with an error, once the other side's has not answered for 5 s. What it asks
// is not noticed by the program there; an outage of 3 s is survived.
void keep_alive(int fd);

}  // namespace floe::tcp
