// Messages that no peer of ours would send.
#include <array>
#include <cstring>

#include "fabric/address.h"
#include "fabric/endpoint.h"
#include "fixture.h"

namespace floe {
namespace {

using fabric::Endpoint;
using fabric::EndpointAddress;
using fabric::LinkHeader;
using fabric::LinkKind;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A bare endpoint that sends any bytes to a transport.
class Stranger {
 public:
  explicit Stranger(const std::string& provider) {
    const auto lib = fabric::Libfabric::load();
    FabricOptions options;
    options.provider = provider;
    options.one_host = true;
    auto nics = fabric::find_nics(*lib, fabric::provider_candidates(*lib, provider)[0],
                                  *fabric::own_addresses(options), options);
    endpoint_ = std::move(*Endpoint::open(*lib, std::move(nics.at(0)), std::array<uint16_t, 1>{}));
  }
  std::string address(uint64_t id) const {
    return EndpointAddress{
        endpoint_->lib().version(), endpoint_->provider(), endpoint_->name_format(), {endpoint_->name()}, id}
        .to_text();
  }
  // Sends, and progresses `target` until the message has left.
  void send(FabricTransport& target, PacketSink& sink, std::vector<std::byte> bytes) {
    const auto theirs = EndpointAddress::parse(target.address());
    if (!connected_) address_ = *endpoint_->insert(theirs->names[0]);
    slot_.data = bytes.data();
    connected_ = true;
    ssize_t code = -FI_EAGAIN;
    bool left = false;
    ASSERT_TRUE(progress_until({{&target, &sink}}, [&] {
      if (code == -FI_EAGAIN) code = endpoint_->send(address_, slot_, bytes.size());
      ssize_t read = 0;
      left = left || !endpoint_->read(&read).empty();
      if (read == -FI_EAVAIL) left = endpoint_->take_error().slot != nullptr;
      return code == 0 && left;
    }));
  }

 private:
  std::unique_ptr<Endpoint> endpoint_;
  bool connected_ = false;
  uint64_t address_ = 0;
  fabric::Slot slot_;
};

std::vector<std::byte> message(const LinkHeader& header, size_t body) {
  std::vector<std::byte> bytes(sizeof header + body);
  std::memcpy(bytes.data(), &header, sizeof header);
  const PacketHeader packet;
  std::memcpy(bytes.data() + sizeof header, &packet, std::min(body, sizeof packet));
  return bytes;
}

class FabricStrangerTest : public ProviderTest {
 protected:
  void SetUp() override {
    ProviderTest::SetUp();
    if (IsSkipped()) return;
    target_ = open_transport(provider());
    own_id_ = EndpointAddress::parse(target_->address())->id;
    stranger_ = std::make_unique<Stranger>(provider());
    // Of a peer's host: others do not get so far.
    ASSERT_TRUE(target_->add_peer(stranger_->address(UINT64_MAX), "of the stranger's host").ok());
  }
  LinkHeader packet(uint64_t from, uint64_t sequence) const {
    LinkHeader header;
    header.kind = LinkKind::kPacket;
    header.from = from;
    header.to = own_id_;
    header.sequence = sequence;
    return header;
  }
  void send(const std::vector<std::byte>& bytes) { stranger_->send(*target_, received_, bytes); }
  // Or more: a provider may report each piece of a message.
  bool dropped(uint64_t count) {
    return progress_until({{target_.get(), &received_}}, [&] { return target_->dropped() >= count; });
  }

  // A peer is heard as if nothing had happened.
  void expect_service() {
    const auto peer = open_transport(provider());
    Collector nothing(1, largest());
    ASSERT_TRUE(target_->add_peer(peer->address(), "a peer").ok());
    const PeerId to = *peer->add_peer(target_->address(), "the target");
    const Stream stream(0, largest());
    uint64_t next = 0;
    EXPECT_TRUE(progress_until({{target_.get(), &received_}, {peer.get(), &nothing}}, [&] {
      while (next < 100 && peer->try_send(to, stream.header(next), stream.payload(next))) ++next;
      return received_.count() == 100 && peer->idle();
    }));
    EXPECT_THAT(received_.losses(), IsEmpty());
  }

  std::unique_ptr<FabricTransport> target_;
  uint64_t own_id_ = 0;
  std::unique_ptr<Stranger> stranger_;
  Collector received_{1, largest()};
};
FLOE_ALL_PROVIDERS(FabricStrangerTest);

TEST_P(FabricStrangerTest, GarbageIsDroppedAndPeersAreUnaffected) {
  LinkHeader foreign = packet(7, 0);
  foreign.to = own_id_ + 1;
  LinkHeader lying = packet(7, 0);
  lying.payload = UINT32_MAX;
  const std::vector<std::vector<std::byte>> all = {
      std::vector<std::byte>(1),
      std::vector<std::byte>(sizeof(LinkHeader)),
      std::vector<std::byte>(fabric::slot_bytes(largest()), std::byte{0xff}),
      message(packet(7, 0), sizeof(PacketHeader)),  // whole and well addressed, of nobody
      message(packet(7, 0), 3),
      message(lying, sizeof(PacketHeader)),
      message(foreign, sizeof(PacketHeader)),
  };
  uint64_t sent = 0;
  for (int round = 0; round < 20; ++round)  // more than there are buffers
    for (const auto& bytes : all) {
      send(bytes);
      ++sent;
    }
  EXPECT_TRUE(dropped(sent)) << target_->dropped() << " of " << sent;
  expect_service();
}

TEST_P(FabricStrangerTest, MessageAboveTheBufferSizeIsDropped) {
  if (provider() == "shm")
    GTEST_SKIP() << "libfabric 1.17's shm never returns from a receive that is too small";
  send(std::vector<std::byte>(4 * fabric::slot_bytes(largest()), std::byte{1}));
  EXPECT_TRUE(dropped(1)) << target_->dropped();
  expect_service();
}

TEST_P(FabricStrangerTest, PeerThatBreaksTheProtocolIsLost) {
  LinkHeader ahead = packet(1, fabric::kWindow), acknowledges = packet(2, 0), old = packet(3, 0);
  acknowledges.consumed = 1;
  PacketHeader version;
  ++version.version;
  old.payload = 0;
  auto other_version = message(old, sizeof(PacketHeader));
  std::memcpy(other_version.data() + sizeof old, &version, sizeof version);
  const std::vector<std::pair<std::vector<std::byte>, std::string>> all = {
      {message(ahead, sizeof(PacketHeader)), "outside its window"},
      {message(acknowledges, sizeof(PacketHeader)), "not sent"},
      {other_version, "version"},
  };
  for (uint64_t id = 1; id <= all.size(); ++id) {
    Stranger peer(provider());
    const auto added = target_->add_peer(peer.address(id), "rank " + std::to_string(id));
    ASSERT_TRUE(added.ok()) << added.status().message();
    peer.send(*target_, received_, all[id - 1].first);
    ASSERT_TRUE(
        progress_until({{target_.get(), &received_}}, [&] { return received_.losses().size() == id; }));
    EXPECT_EQ(received_.losses().back().first, *added);
    EXPECT_THAT(received_.losses().back().second.message(), HasSubstr(all[id - 1].second));
    EXPECT_THAT(received_.losses().back().second.message(), HasSubstr("rank " + std::to_string(id)));
    EXPECT_FALSE(target_->add_peer(peer.address(id), "again").ok());
  }
  EXPECT_EQ(received_.total(), 0u);
}

// A provider may complete a small message before the large one that was sent before it.
TEST_P(FabricStrangerTest, PacketsThatOvertakeAreDeliveredInOrder) {
  const Stream stream(0, largest());
  ASSERT_TRUE(target_->add_peer(stranger_->address(1), "rank 1").ok());
  for (const uint64_t sequence : {2, 1, 3, 0, 4}) {
    LinkHeader header = packet(1, sequence);
    const auto payload = stream.payload(sequence);
    header.payload = static_cast<uint32_t>(payload.size());
    auto bytes = message(header, sizeof(PacketHeader) + payload.size());
    const PacketHeader inner = stream.header(sequence);
    std::memcpy(bytes.data() + sizeof header, &inner, sizeof inner);
    std::memcpy(bytes.data() + fabric::kHeaderBytes, payload.data(), payload.size());
    send(bytes);
  }
  EXPECT_TRUE(progress_until({{target_.get(), &received_}}, [&] { return received_.count() == 5; }));
  EXPECT_THAT(received_.losses(), IsEmpty());
}

TEST_P(FabricStrangerTest, NameOfAWrongLengthIsRefused) {
  auto address = *EndpointAddress::parse(stranger_->address(1));
  address.names[0].pop_back();
  EXPECT_FALSE(target_->add_peer(address.to_text(), "rank 1").ok());
}

}  // namespace
}  // namespace floe
