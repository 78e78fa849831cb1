// Packets over several endpoints at once, and over registered buffers.
#include <poll.h>

#include "fabric/address.h"
#include "fabric/rail.h"
#include "fixture.h"

namespace floe {
namespace {

using fabric::EndpointAddress;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

FabricOptions options(const std::string& provider, uint32_t rails, bool always_registers = false) {
  FabricOptions o;
  o.provider = provider;
  o.one_host = true;
  o.rails = rails;
  o.always_registers = always_registers;
  return o;
}

std::unique_ptr<FabricTransport> open(const FabricOptions& options) {
  return std::move(*FabricTransport::open(options));
}

// Both streams arrive whole and in order.
void converse(const FabricOptions& options, uint64_t packets) {
  End a(open(options), 0), b(open(options), 1);
  a.peer = *a.transport->add_peer(b.transport->address(), "rank 1");
  b.peer = *b.transport->add_peer(a.transport->address(), "rank 0");
  EXPECT_TRUE(progress_until({{a.transport.get(), &a.received}, {b.transport.get(), &b.received}},
                             [&] {
                               a.send_some(packets);
                               b.send_some(packets);
                               return a.received.count(1) == packets && b.received.count(0) == packets &&
                                      a.transport->idle() && b.transport->idle();
                             }))
      << a.received.count(1) << " and " << b.received.count(0) << " packets arrived";
  EXPECT_THAT(a.received.losses(), IsEmpty());
  EXPECT_THAT(b.received.losses(), IsEmpty());
}

class FabricRailsTest : public FabricTest {};

TEST_F(FabricRailsTest, StreamsOverSeveralRailsArriveInOrder) {
  for (const uint32_t rails : {2, 3, 8}) converse(options("tcp", rails), 3000);
}

TEST_F(FabricRailsTest, ASleeperWakesWhicheverRailAPacketComesOver) {
  End a(open(options("tcp", 2)), 0), b(open(options("tcp", 2)), 1);
  a.peer = *a.transport->add_peer(b.transport->address(), "rank 1");
  b.peer = *b.transport->add_peer(a.transport->address(), "rank 0");
  const std::vector<Pair> both = {{a.transport.get(), &a.received}, {b.transport.get(), &b.received}};
  ASSERT_TRUE(progress_until(both, [&] {  // connects
    a.send_some(500);
    return b.received.count(0) == 500 && a.transport->idle();
  }));
  for (uint64_t more = 501; more < 600; ++more) {
    a.send_some(more);
    const Deadline deadline = Deadline::in(kLong);
    while (b.received.count(0) < more && !deadline.passed()) {
      a.transport->progress(a.received);
      if (b.transport->progress(b.received) != 0 || !b.transport->prepare_wait()) continue;
      pollfd waited{b.transport->wait_fd(), POLLIN, 0};
      ::poll(&waited, 1, 10);
    }
    ASSERT_EQ(b.received.count(0), more);
  }
}

TEST_F(FabricRailsTest, AnotherNumberOfRailsIsRefused) {
  const auto one = open(options("tcp", 1));
  const auto two = open(options("tcp", 2));
  EXPECT_THAT(EndpointAddress::parse(two->address())->names, SizeIs(2));
  const auto added = one->add_peer(two->address(), "rank 1 (host b)");
  EXPECT_EQ(FLOE_ERR_MISMATCH, added.status().code());
  EXPECT_THAT(added.status().message(),
              HasSubstr("rank 1 (host b) has 2 rails, this rank 1: set FLOE_RAILS"));
}

TEST_F(FabricRailsTest, AProviderWithFewerDevicesIsRefusedAndTheyAreListed) {
  const auto opened = FabricTransport::open(options("shm", 2));
  EXPECT_EQ(FLOE_ERR_ENVIRONMENT, opened.status().code());
  EXPECT_THAT(opened.status().message(), HasSubstr("FLOE_PROVIDER='shm'"));
  EXPECT_THAT(opened.status().message(), HasSubstr("shm (shm)"));
}

class FabricRegisteredTest : public ProviderTest {};
FLOE_ALL_PROVIDERS(FabricRegisteredTest);

TEST_P(FabricRegisteredTest, StreamsArriveFromRegisteredBuffers) {
  converse(options(provider(), 1, true), 2000);
}

TEST_P(FabricRegisteredTest, EveryBufferHasADescriptor) {
  const auto lib = fabric::Libfabric::load();
  for (const bool always : {false, true}) {
    auto rails = fabric::open_rails(*lib, options(provider(), 1, always), 1);
    ASSERT_TRUE(rails.ok()) << rails.status().message();
    fabric::Rail& rail = *rails->front();
    ASSERT_TRUE(rail.reserve(2).ok());
    EXPECT_EQ(always, rail.endpoint().registrations().needed());
    EXPECT_EQ(always, rail.take_packet()->descriptor != nullptr);
    EXPECT_EQ(always, rail.take_credit()->descriptor != nullptr);
    if (rail.endpoint().must_be_idle_to_close()) {
      EXPECT_TRUE(rail.take_back_everything(Deadline::in(kLong)));
    }
  }
}

}  // namespace
}  // namespace floe
