#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace floe {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesOnceWhateverMoves) {
  int raw;
  {
    UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    raw = first.get();
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first.valid());
    UniqueFd third(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int replaced = third.get();
    third = std::move(second);
    EXPECT_FALSE(is_open(replaced));
    EXPECT_EQ(third.get(), raw);
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(UniqueFd, SelfMoveKeepsTheDescriptor) {
  UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  UniqueFd& alias = fd;
  fd = std::move(alias);
  EXPECT_TRUE(is_open(fd.get()));
}

}  // namespace
}  // namespace floe
