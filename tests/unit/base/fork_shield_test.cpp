#include "base/fork_shield.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace floe {
namespace {

bool is_null(int fd) {
  struct stat is {
  }, null{};
  return ::fstat(fd, &is) == 0 && ::stat("/dev/null", &null) == 0 && is.st_rdev == null.st_rdev;
}

UniqueFd any() { return UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)); }

// What `check` returns in a forked child.
template <class F>
bool in_child(F&& check) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(UnforkedFd, IsOnlyInTheProcessThatOpenedIt) {
  const UnforkedFd fd(any());
  EXPECT_TRUE(in_child([&] { return is_null(fd.get()); }));
  EXPECT_FALSE(is_null(fd.get()));
}

TEST(UnforkedFd, LeavesOthersAlone) {
  const UniqueFd other = any();
  int raw = -1;
  {
    const UnforkedFd gone(any());
    raw = gone.get();
  }
  const UniqueFd next = any();
  ASSERT_EQ(raw, next.get());
  const UnforkedFd fd(any());
  EXPECT_TRUE(in_child([&] { return !is_null(other.get()) && !is_null(next.get()) && is_null(fd.get()); }));
}

TEST(UnforkedFd, MayMove) {
  UnforkedFd first(any());
  const int raw = first.get();
  const UnforkedFd second(std::move(first));
  EXPECT_EQ(raw, second.get());
  EXPECT_TRUE(in_child([&] { return is_null(raw); }));
}

}  // namespace
}  // namespace floe
