// What ranks of several hosts know of each other's end.
//
// Every pair of hosts has one TCP connection, and all ranks of a host hold both its descriptor and nothing
// but it: the kernel closes it when the last of them has ended. What one that is left has to say, it writes;
// each of the others reads all of it without taking it away, so the connection is a log that belongs to
// nobody and outlives everybody. Only ends are written: a few records in the life of a job.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/fork_shield.h"
#include "base/status.h"

namespace floe {

class Control {
 public:
  struct Host {
    std::string name;
    UniqueFd connection;            // invalid: this host
    std::vector<uint64_t> engines;  // of its ranks
  };
  struct Neighbour {  // another process of this host
    uint64_t engine;
    UniqueFd pidfd;
    bool first;  // has a lower rank than this one
  };
  struct End {
    bool certain;     // its process has ended; otherwise it is out of reach, and may live
    std::string how;  // "died": what follows its name
  };

  // `self` is this rank's engine. Starts a thread, asleep but when a neighbour ends, if there is any.
  static Result<std::shared_ptr<Control>> create(uint64_t id, uint64_t self, std::vector<Host> hosts,
                                                 std::vector<Neighbour> neighbours);
  // Tells the other hosts that this rank leaves.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  uint64_t id() const { return id_; }
  // Whether all hosts are still connected: it will do for another communicator of the same ranks.
  bool intact() const;

  // One thread at a time:
  // Readable when poll() has something to do.
  int wait_fd() const { return events_.get(); }
  // Takes note of what has happened; a number that changes whenever that is anything new.
  uint64_t poll();
  // How the rank with this engine, of another host, has ended; null if nothing is known of it.
  const End* end_of(uint64_t engine) const;

 private:
  struct Connection {
    std::string host;
    UnforkedFd fd;
    size_t read = 0;  // bytes of the log
    bool over = false;
  };
  struct Engine {
    size_t connection;
    bool left = false;
    std::optional<End> end;
  };

  Control(uint64_t id, uint64_t self) : id_(id), self_(self) {}
  Status open(std::vector<Host> hosts, std::vector<Neighbour> neighbours);
  void say(uint32_t kind, uint64_t engine) const;
  void watch();
  void look(size_t index);
  void read_log(size_t index);
  void hear(size_t index, std::span<const std::byte> news);
  void end_host(size_t index, const End& end);

  const uint64_t id_;
  const uint64_t self_;
  const pid_t pid_ = ::getpid();
  uint64_t news_ = 1;
  UniqueFd events_;  // epoll(7), edge-triggered: what has been read stays there
  std::vector<Connection> connections_;
  std::unordered_map<uint64_t, Engine> engines_;  // of other hosts
  std::vector<Neighbour> neighbours_;
  UniqueFd stop_;
  std::thread watcher_;
};

}  // namespace floe
