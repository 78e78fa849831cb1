// A process that a peer's library runs in.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace floe::bench {

class Child {
 public:
  struct Config {
    std::vector<std::string> words;  // the program, found on PATH, and its arguments
    int in = -1, out = -1;           // its stdin and stdout; -1: /dev/null, and this process's stderr
    bool all_cpus = false;           // may run wherever this process might, if it were not pinned
  };
  // It is killed when the calling thread ends.
  static Result<std::unique_ptr<Child>> start(const Config& config);
  // Waits for its end, for which it must have been told; terminates it after some seconds.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // True once it has ended. Never blocks.
  bool ended();
  // How it did: "exited with status 1".
  std::string how() const;

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  bool reaped_ = false;
  int status_ = 0;
};

// Whether the program exits with status 0, within 30 s.
bool succeeds(std::vector<std::string> words);

}  // namespace floe::bench
