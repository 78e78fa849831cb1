// Ranks that take each other for other hosts' although they are processes of one: a process of another user
// is on another host as far as floe knows.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>

namespace floe::test {

class PretendedHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be other users";
  }
};

inline void move_to_host(uint32_t host) {
  constexpr uid_t kFirst = 61000;
  ASSERT_EQ(0, seteuid(kFirst + host));
  ASSERT_EQ(0, prctl(PR_SET_DUMPABLE, 1)) << "else /proc/self is root's, and no rank is found to be local";
}

}  // namespace floe::test
