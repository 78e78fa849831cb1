#include "base/fork_shield.h"

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace floe {
namespace {

struct Shield {
  std::mutex mutex;
  std::vector<int> fds;

  // Never destroyed: a fork may come while the program ends.
  static Shield& get() {
    static Shield* const shield = new Shield;
    static const int registered =
        ::pthread_atfork([] { shield->mutex.lock(); }, [] { shield->mutex.unlock(); }, in_child);
    (void)registered;
    return *shield;
  }

  // Only what a signal handler may call, too: another thread may have held any lock at the fork.
  static void in_child() {
    Shield& shield = get();
    const int null = shield.fds.empty() ? -1 : ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : shield.fds)
      if (null < 0 || ::dup3(null, fd, O_CLOEXEC) < 0) ::close(fd);
    if (null >= 0) ::close(null);
    shield.fds.clear();
    shield.mutex.unlock();
  }
};

}  // namespace

UnforkedFd::UnforkedFd(UniqueFd fd) : fd_(std::move(fd)) {
  if (!fd_.valid()) return;
  Shield& shield = Shield::get();
  const std::lock_guard guard(shield.mutex);
  shield.fds.push_back(fd_.get());
}

UnforkedFd::~UnforkedFd() {
  if (!fd_.valid()) return;
  Shield& shield = Shield::get();
  const std::lock_guard guard(shield.mutex);
  std::erase(shield.fds, fd_.get());
  fd_.reset();  // under the lock: no fork between, whose child would replace somebody else's descriptor
}

}  // namespace floe
