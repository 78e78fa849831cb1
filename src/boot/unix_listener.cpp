#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "boot/random.h"
#include "boot/unix_address.h"
#include "boot/unix_exchange.h"

namespace floe {

Result<UnixListener> UnixListener::create(uint32_t backlog) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("creating a Unix socket", errno);
  std::string name = "floe-" + random_hex(16);
  const UnixAddress address(name);
  if (::bind(socket.get(), address.get(), address.size()) != 0)
    return system_error("binding a Unix socket", errno);
  const int most = static_cast<int>(std::min<uint32_t>(std::max(backlog, 1u), SOMAXCONN));
  if (::listen(socket.get(), most) != 0) return system_error("listening on a Unix socket", errno);
  return UnixListener(std::move(socket), std::move(name), random_hex(kTokenBytes));
}

}  // namespace floe
