#include "fabric/interface.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

namespace floe::fabric {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<Interface> kAll = {
    {"lo", "127.0.0.1", AF_INET, true},     {"docker0", "172.17.0.1", AF_INET, false},
    {"eth0", "10.0.0.1", AF_INET, false},   {"eth1", "10.1.0.1", AF_INET, false},
    {"eth10", "10.10.0.1", AF_INET, false}, {"ib0", "10.2.0.1", AF_INET, false},
    {"lo", "::1", AF_INET6, true},          {"eth0", "fd00::1", AF_INET6, false},
    {"wlan0", "fd01::1", AF_INET6, false},
};

// What one of them would be, or why there is none.
std::string chosen(std::string_view names, const std::string& routed = "10.1.0.1", size_t count = 1) {
  const auto list = InterfaceList::parse(names);
  if (!list.ok()) return list.status().message();
  const auto addresses = choose_addresses(kAll, *list, routed, count);
  return addresses.ok() ? fmt::format("{}", fmt::join(*addresses, " ")) : addresses.status().message();
}

TEST(FabricInterface, TheOneThatRoutesToTheOthersIsTheDefault) {
  EXPECT_EQ(chosen(""), "10.1.0.1");
  EXPECT_EQ(chosen("", "10.2.0.1"), "10.2.0.1");
  EXPECT_EQ(chosen("", "fd00::1"), "fd00::1");
}

TEST(FabricInterface, WithoutARouteLoopbackAndDockerAreTheLast) {
  EXPECT_EQ(chosen("", ""), "10.0.0.1");
  EXPECT_EQ(chosen("^eth,ib,wlan", ""), "172.17.0.1");
  EXPECT_EQ(chosen("^eth,ib,wlan,docker", ""), "127.0.0.1");
}

TEST(FabricInterface, NamesAreTheBeginningsOfInterfaces) {
  EXPECT_EQ(chosen("ib"), "10.2.0.1");
  EXPECT_EQ(chosen("eth1"), "10.1.0.1");
  EXPECT_EQ(chosen("eth", "10.10.0.1"), "10.10.0.1") << "of equals the one that routes";
  EXPECT_EQ(chosen("docker"), "172.17.0.1");
  EXPECT_EQ(chosen("lo"), "127.0.0.1");
}

TEST(FabricInterface, TheOrderOfAListCounts) {
  EXPECT_EQ(chosen("ib0,eth1"), "10.2.0.1");
  EXPECT_EQ(chosen("eth1,ib0", "10.2.0.1"), "10.1.0.1");
  EXPECT_EQ(chosen("nothing,ib0"), "10.2.0.1");
}

TEST(FabricInterface, AnEqualsSignMeansWholeNames) {
  EXPECT_EQ(chosen("=eth1", "10.10.0.1"), "10.1.0.1");
  EXPECT_THAT(chosen("=eth"), HasSubstr("FLOE_IFNAME='=eth'"));
  EXPECT_EQ(chosen("^=eth1", "10.1.0.1"), "10.0.0.1");
  EXPECT_EQ(chosen("^=eth1", "10.10.0.1"), "10.10.0.1");
}

TEST(FabricInterface, ACaretMeansAllBut) {
  EXPECT_EQ(chosen("^lo,docker", ""), "10.0.0.1");
  EXPECT_EQ(chosen("^eth1"), "10.0.0.1") << "eth10 begins with it, too";
  EXPECT_EQ(chosen("^eth"), "10.2.0.1");
}

TEST(FabricInterface, NamedOnesHaveIPv4WhereTheyCanWhateverRoutes) {
  EXPECT_EQ(chosen("eth0", "fd00::1"), "10.0.0.1");
  EXPECT_EQ(chosen("wlan0", "fd00::1"), "fd01::1");
}

TEST(FabricInterface, SeveralAreOfOneFamilyAndNoneIsTakenTwice) {
  EXPECT_EQ(chosen("", "10.2.0.1", 3), "10.2.0.1 10.0.0.1 10.1.0.1");
  EXPECT_EQ(chosen("eth1,eth0", "", 2), "10.1.0.1 10.10.0.1");
  EXPECT_EQ(chosen("=eth1,eth0", "", 2), "10.1.0.1 10.0.0.1");
  EXPECT_EQ(chosen("", "fd01::1", 2), "fd01::1 fd00::1");
  EXPECT_THAT(chosen("ib0,lo", "", 2), HasSubstr("leaves 1 usable interfaces for FLOE_RAILS=2"));
}

TEST(FabricInterface, AnErrorListsWhatThereIs) {
  EXPECT_THAT(chosen("eth77"), AllOf(HasSubstr("FLOE_IFNAME='eth77'"), HasSubstr("lo (127.0.0.1)"),
                                     HasSubstr("ib0 (10.2.0.1)"), HasSubstr("wlan0 (fd01::1)")));
  for (const char* const empty : {"eth0,", ",eth0", "^", "=", "^="})
    EXPECT_THAT(chosen(empty), HasSubstr("has an empty name")) << empty;
}

TEST(FabricInterface, RouteToLoopbackIsNoRouteToOtherHosts) {
  EXPECT_EQ(address_towards("127.0.0.1"), "");
  EXPECT_EQ(address_towards("::1"), "");
  EXPECT_EQ(address_towards("no-such-host.invalid"), "");
}

}  // namespace
}  // namespace floe::fabric
