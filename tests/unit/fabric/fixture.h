// What the fabric tests share: transports on one provider, a sink that remembers, and a peer in a process of
// its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "fabric/fabric_transport.h"
#include "fabric/link.h"

namespace floe {

constexpr Millis kLong(20'000);

// Packet `sequence` of a stream: its size, at most `largest`, and its bytes follow from `seed` and the
// number.
class Stream {
 public:
  Stream(uint32_t seed, size_t largest);
  PacketHeader header(uint64_t sequence) const;
  std::span<const std::byte> payload(uint64_t sequence) const;

 private:
  uint32_t seed_;
  size_t largest_;
  std::vector<std::byte> noise_;
};

// Checks that packets are exactly those of its streams, in order, and counts them by `header.source`.
class Collector final : public PacketSink {
 public:
  Collector(uint32_t sources, size_t largest);
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override;
  void on_peer_lost(PeerId peer, const Status& why) override;

  uint64_t count(uint32_t source = 0) const { return counts_[source]; }
  uint64_t total() const;
  const std::vector<std::pair<PeerId, Status>>& losses() const { return losses_; }

 private:
  std::vector<Stream> streams_;
  std::vector<uint64_t> counts_;
  std::vector<std::pair<PeerId, Status>> losses_;
};

// Opens on loopback; the test fails if it cannot.
std::unique_ptr<FabricTransport> open_transport(const std::string& provider);

// One end of a conversation: sends its stream, collects the others'.
struct End {
  End(std::unique_ptr<FabricTransport> opened, uint32_t self, uint32_t sources = 2)
      : transport(std::move(opened)),
        stream(self, transport->max_payload()),
        received(sources, transport->max_payload()) {}
  void send_some(uint64_t limit) {
    while (sent < limit && transport->try_send(peer, stream.header(sent), stream.payload(sent))) ++sent;
  }

  std::unique_ptr<FabricTransport> transport;
  PeerId peer = 0;
  Stream stream;
  uint64_t sent = 0;
  Collector received;
};

// Progresses all until `done`; whether that came before the deadline.
using Pair = std::pair<FabricTransport*, PacketSink*>;
bool progress_until(const std::vector<Pair>& all, const std::function<bool()>& done, Millis limit = kLong);

// A forked process with a socket to this one.
class Process {
 public:
  // `body`'s result is the exit code: 0 for success.
  explicit Process(const std::function<int(int socket)>& body);
  ~Process();
  int socket() const { return socket_.get(); }
  void kill();
  // The exit code, or -1 if it does not end in time or is killed by a signal.
  int wait(Millis limit = kLong);

 private:
  pid_t pid_ = -1;
  UniqueFd socket_;
};

void send_line(int socket, const std::string& line);
std::string receive_line(int socket);

// Skips every test when there is no libfabric.
class FabricTest : public testing::Test {
 protected:
  void SetUp() override;
};

class ProviderTest : public FabricTest, public testing::WithParamInterface<std::string> {
 protected:
  std::string provider() const { return GetParam(); }
  size_t largest() const { return fabric::max_payload(provider()); }
  // net and tcp itself: it tells that a connection is gone.
  bool notices_loss() const { return provider() == "tcp"; }
};

#define FLOE_ALL_PROVIDERS(suite)                                                                     \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::Values("tcp", "tcp;ofi_rxm", "shm"), [](const auto& i) { \
    return i.param == "tcp;ofi_rxm" ? std::string("rxm") : i.param;                                   \
  })

}  // namespace floe
