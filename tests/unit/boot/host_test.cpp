#include "boot/host.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

namespace floe {
namespace {

TEST(HostIdentity, IsTheSameEachTimeAndNamesTheHost) {
  const HostIdentity first = host_identity(), second = host_identity();
  EXPECT_EQ(first.id, second.id);
  EXPECT_FALSE(first.id.empty());
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(first.hostname, name);
}

TEST(HostIdentity, IsTheSameInAChildProcess) {
  const std::string id = host_identity().id;
  EXPECT_EXIT(std::exit(host_identity().id == id ? 0 : 1), testing::ExitedWithCode(0), "");
}

// Abstract Unix sockets do not cross network namespaces.
TEST(HostIdentity, DiffersInAnotherNetworkNamespace) {
  constexpr int kNotAllowed = 77;
  const std::string id = host_identity().id;
  EXPECT_EXIT(
      {
        const bool moved = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
        std::exit(!moved ? kNotAllowed : host_identity().id != id ? 0 : 1);
      },
      [](int status) {
        return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kNotAllowed);
      },
      "");
}

TEST(HostIdentity, HostsOfOneNetworkReachEachOthersLoopback) {
  const std::string here = "boot/net:[1]/pid:[1]/uid:0";
  EXPECT_FALSE(in_different_networks(here, here));
  EXPECT_FALSE(in_different_networks(here, "boot/net:[1]/pid:[2]/uid:7"));
  EXPECT_TRUE(in_different_networks(here, "boot/net:[2]/pid:[1]/uid:0"));
  EXPECT_TRUE(in_different_networks(here, "other/net:[1]/pid:[1]/uid:0"));
  EXPECT_FALSE(in_different_networks(here, "unproved-0123")) << "it may be";
}

}  // namespace
}  // namespace floe
