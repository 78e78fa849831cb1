// Hands descriptors (memfds and the like) between the ranks of one host, over abstract Unix sockets with
// SCM_RIGHTS. Nothing is left behind if a process is killed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace floe {

// A rank of this host, as it has announced itself through the store.
struct LocalRank {
  uint32_t rank = 0;
  pid_t pid = 0;
  std::string socket_name;
  std::string token;  // random; whoever presents it has read the store
};

class UnixListener {
 public:
  // `backlog`: how many ranks may connect.
  static Result<UnixListener> create(uint32_t backlog);

  const std::string& socket_name() const { return socket_name_; }
  const std::string& token() const { return token_; }
  int fd() const { return socket_.get(); }

 private:
  UnixListener(UniqueFd socket, std::string socket_name, std::string token)
      : socket_(std::move(socket)), socket_name_(std::move(socket_name)), token_(std::move(token)) {}

  UniqueFd socket_;
  std::string socket_name_;
  std::string token_;
};

struct ReceivedFds {
  std::vector<UniqueFd> fds;  // close-on-exec
  UniqueFd pidfd;             // of the peer's process; invalid if it is this one, or if the kernel has none
};

constexpr size_t kMaxExchangedFds = 8;

// Gives `fds_to_give` (1 to kMaxExchangedFds, as many on every rank) to every other rank, and returns what
// they gave: result[i] came from ranks[i], result[self] is empty. Ranks may be threads of one process.
// Collective among `ranks`, which is the same on all of them. Blocking, at most until the deadline:
// FLOE_ERR_TIMEOUT names the ranks that are missing, FLOE_ERR_PEER one that died. `interrupted`, if given, is
// asked some times a second: an error ends the exchange, too.
Result<std::vector<ReceivedFds>> exchange_fds(UnixListener& listener, std::span<const LocalRank> ranks,
                                              size_t self, std::span<const int> fds_to_give,
                                              Deadline deadline,
                                              const std::function<Status()>& interrupted = {});

}  // namespace floe
