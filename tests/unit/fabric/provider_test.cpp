#include "fabric/provider.h"

#include <dlfcn.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>

#include "fabric/address.h"
#include "fixture.h"

namespace floe {
namespace {

using fabric::EndpointAddress;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FabricProviderTest : public FabricTest {};

FabricOptions options(const std::string& provider, const std::string& interface = "", bool one_host = true) {
  FabricOptions o;
  o.provider = provider;
  o.interface = interface;
  o.one_host = one_host;
  return o;
}

TEST_F(FabricProviderTest, TcpAndNetAreOneProvider) {
  const auto lib = fabric::Libfabric::load();
  const auto tcp = FabricTransport::open(options("tcp")), net = FabricTransport::open(options("net"));
  ASSERT_TRUE(tcp.ok()) << tcp.status().message();
  ASSERT_TRUE(net.ok()) << net.status().message();
  EXPECT_EQ((*tcp)->name(), (*net)->name());
  EXPECT_EQ((*tcp)->name(), lib->at_least(1, 18) ? "fabric tcp" : "fabric net");
}

TEST_F(FabricProviderTest, LibfabricIsTheOneThatThisRunIsAbout) {
  const char* const wanted = std::getenv("WANTED_LIBFABRIC");
  if (!wanted) GTEST_SKIP() << "any will do";
  const std::string version = fabric::Libfabric::load()->version();
  EXPECT_TRUE(version.starts_with(wanted)) << version;
}

TEST_F(FabricProviderTest, OneIsChosenWithoutBeingNamed) {
  EXPECT_TRUE(FabricTransport::open(options("")).ok());
  EXPECT_TRUE(FabricTransport::open(options("", "", false)).ok());
}

TEST_F(FabricProviderTest, UnknownProviderIsAnErrorThatListsThoseThatExist) {
  const auto opened = FabricTransport::open(options("infinitebandwidth"));
  EXPECT_EQ(opened.status().code(), FLOE_ERR_ENVIRONMENT);
  EXPECT_THAT(opened.status().message(), AllOf(HasSubstr("FLOE_PROVIDER='infinitebandwidth'"),
                                               HasSubstr("shm (shm)"), HasSubstr("tcp;ofi_rxm (")));
}

TEST_F(FabricProviderTest, UnknownInterfaceIsAnErrorThatListsThoseThatExist) {
  const auto opened = FabricTransport::open(options("", "eth77"));
  EXPECT_EQ(opened.status().code(), FLOE_ERR_ENVIRONMENT);
  EXPECT_THAT(opened.status().message(),
              AllOf(HasSubstr("FLOE_IFNAME='eth77'"), HasSubstr("lo (127.0.0.1)")));
}

// The address that others get is the interface's, not the wildcard.
TEST_F(FabricProviderTest, EndpointBindsToTheInterface) {
  const auto opened = FabricTransport::open(options("tcp", "lo", false));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const std::string name = EndpointAddress::parse((*opened)->address())->names[0];
  const std::string loopback("\x7f\x00\x00\x01", 4);  // in network order, wherever sockaddr_in has it
  EXPECT_NE(name.find(loopback), std::string::npos);
}

TEST_F(FabricProviderTest, PeersOfAnotherProviderOrLibfabricAreRefused) {
  const auto self = open_transport("tcp"), other = open_transport("shm");
  const auto added = self->add_peer(other->address(), "rank 1 (host b)");
  EXPECT_EQ(added.status().code(), FLOE_ERR_MISMATCH);
  EXPECT_THAT(added.status().message(), AllOf(HasSubstr("rank 1 (host b)"), HasSubstr("provider shm"),
                                              HasSubstr(EndpointAddress::parse(self->address())->provider)));

  auto newer = *EndpointAddress::parse(self->address());
  newer.libfabric = "9.9";
  ++newer.id;
  const auto second = self->add_peer(newer.to_text(), "rank 1 (host b)");
  EXPECT_EQ(second.status().code(), FLOE_ERR_MISMATCH);
  EXPECT_THAT(second.status().message(), HasSubstr("libfabric 9.9"));

  auto ipv6 = *EndpointAddress::parse(self->address());
  ++ipv6.format;
  ++ipv6.id;
  EXPECT_EQ(self->add_peer(ipv6.to_text(), "rank 1").status().code(), FLOE_ERR_MISMATCH);
  EXPECT_FALSE(self->add_peer("garbage", "rank 1").ok());
  EXPECT_EQ(self->add_peer(self->address(), "rank 0").status().code(), FLOE_ERR_ARGUMENT);
}

// Must be the first to load libfabric in its process, as it is under ctest.
TEST(FabricSignals, HandlersAreWhatTheyWereBeforeLibfabricWasLoaded) {
  if (::dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD)) GTEST_SKIP() << "libfabric has been loaded before";
  struct sigaction before[NSIG] {
  }, after{};
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, nullptr, &before[signal]);
  const auto opened = FabricTransport::open(options(""));
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  for (int signal = 1; signal < NSIG; ++signal) {
    ::sigaction(signal, nullptr, &after);
    EXPECT_EQ(after.sa_handler, before[signal].sa_handler) << "signal " << signal;
    // The C library adds a flag of its own when it sets a disposition.
    constexpr int kPublic = SA_SIGINFO | SA_NODEFER | SA_RESETHAND | SA_ONSTACK | SA_RESTART;
    EXPECT_EQ(after.sa_flags & kPublic, before[signal].sa_flags & kPublic) << "signal " << signal;
  }
}

}  // namespace
}  // namespace floe
