// Ranks of one host for tests of the descriptor exchange: threads of this process, or forked processes that
// meet in shared memory in place of a store.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "boot/unix_exchange.h"
#include "support.h"

namespace floe::test {

// A memfd that says which rank made it.
inline UniqueFd marked_fd(int mark) {
  UniqueFd fd(::memfd_create("floe-test", MFD_CLOEXEC));
  return ::write(fd.get(), &mark, sizeof mark) == sizeof mark ? std::move(fd) : UniqueFd();
}

inline int mark_of(const UniqueFd& fd) {
  int mark = -1;
  return ::pread(fd.get(), &mark, sizeof mark, 0) == sizeof mark ? mark : -1;
}

// Listeners and announcements of `count` ranks in this process.
struct ThreadRanks {
  explicit ThreadRanks(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      auto listener = UnixListener::create(static_cast<uint32_t>(count));
      listeners.push_back(std::move(*listener));
      ranks.push_back(
          {static_cast<uint32_t>(i), ::getpid(), listeners[i].socket_name(), listeners[i].token()});
    }
  }

  // Runs the exchange of rank i, giving `fds` descriptors marked 10 * i, 10 * i + 1, ...
  Result<std::vector<ReceivedFds>> exchange(size_t i, int fds, Deadline deadline) {
    std::vector<UniqueFd> owned;
    std::vector<int> given;
    for (int k = 0; k < fds; ++k) {
      owned.push_back(marked_fd(static_cast<int>(10 * i) + k));
      given.push_back(owned.back().get());
    }
    return exchange_fds(listeners[i], ranks, i, given, deadline);
  }

  std::vector<UnixListener> listeners;
  std::vector<LocalRank> ranks;
};

// What the processes share: their announcements.
struct Board {
  static constexpr size_t kMost = 8;
  struct Entry {
    pid_t pid;
    char socket_name[64];
    char token[64];
  };
  std::array<Entry, kMost> entries;
  std::atomic<uint32_t> announced;

  void announce(size_t i, const UnixListener& listener) {
    entries[i].pid = ::getpid();
    entries[i].socket_name[listener.socket_name().copy(entries[i].socket_name, 63)] = '\0';
    entries[i].token[listener.token().copy(entries[i].token, 63)] = '\0';
    announced.fetch_add(1, std::memory_order_release);  // pairs with the acquire in ranks()
  }

  std::vector<LocalRank> ranks(size_t count) {
    while (announced.load(std::memory_order_acquire) < count) std::this_thread::sleep_for(Millis(1));
    std::vector<LocalRank> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back({static_cast<uint32_t>(i), entries[i].pid, entries[i].socket_name, entries[i].token});
    return all;
  }
};

// Forked ranks. The functions run in the children; what they return is the exit code, 0 for success.
class ProcessRanks {
 public:
  ProcessRanks()
      : board_(new (::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   Board()) {}
  ~ProcessRanks() {
    for (const pid_t pid : children_) ::kill(pid, SIGKILL);
    while (!children_.empty()) wait_for_first();
    ::munmap(board_, sizeof(Board));
  }
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;

  Board& board() { return *board_; }

  pid_t spawn(const std::function<int()>& body) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(body());
    children_.push_back(pid);
    return pid;
  }

  // The wait status of the child that was spawned first among those not waited for.
  int wait_for_first() {
    int status = -1;
    ::waitpid(children_.front(), &status, 0);
    children_.erase(children_.begin());
    return status;
  }

 private:
  Board* board_;
  std::vector<pid_t> children_;
};

}  // namespace floe::test
