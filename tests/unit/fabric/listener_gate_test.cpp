#include "fabric/listener_gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace floe::fabric {
namespace {

class Listener {
 public:
  // Port 0: any.
  Listener(const char* address, in_port_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    at_.sin_family = AF_INET;
    at_.sin_port = port;
    ::inet_pton(AF_INET, address, &at_.sin_addr);
    socklen_t size = sizeof at_;
    auto* const place = reinterpret_cast<sockaddr*>(&at_);
    EXPECT_EQ(0, ::bind(fd_.get(), place, size));
    EXPECT_EQ(0, ::listen(fd_.get(), 1));
    EXPECT_EQ(0, ::getsockname(fd_.get(), place, &size));
  }
  in_port_t port() const { return at_.sin_port; }
  std::string name() const { return {reinterpret_cast<const char*>(&at_), sizeof at_}; }
  // Instructions of its filter; 0: everybody gets through.
  socklen_t filter() const {
    socklen_t instructions = 0;
    EXPECT_EQ(0, ::getsockopt(fd_.get(), SOL_SOCKET, SO_GET_FILTER, nullptr, &instructions));
    return instructions;
  }

 private:
  UniqueFd fd_;
  sockaddr_in at_{};
};

// As two rails have, of FLOE_PORT_RANGE.
TEST(ListenerGate, IsOfTheListenerAtItsAddressAmongThoseWithItsPort) {
  const Listener first("127.0.0.1", 0), second("127.0.0.2", first.port());
  ListenerGate of_first;
  of_first.shut(first.name(), FI_SOCKADDR_IN);
  const socklen_t shut = first.filter();
  EXPECT_LT(0u, shut);
  EXPECT_EQ(0u, second.filter());
  ListenerGate of_second;
  of_second.shut(second.name(), FI_SOCKADDR_IN);
  EXPECT_EQ(shut, second.filter());
  of_second.admit(Listener("127.0.0.3", 0).name());
  EXPECT_EQ(shut, first.filter());
  EXPECT_LT(shut, second.filter());
}

TEST(ListenerGate, LeavesOthersAloneWhereTheProviderHasNoListener) {
  const Listener other("127.0.0.1", 0);
  ListenerGate gate;
  gate.shut(Listener("127.0.0.2", 0).name(), FI_SOCKADDR_IN);  // closed again
  gate.shut(other.name(), FI_ADDR_STR);
  gate.shut("", FI_SOCKADDR_IN);
  gate.admit(other.name());
  EXPECT_EQ(0u, other.filter());
}

}  // namespace
}  // namespace floe::fabric
