// The packet transport between hosts: one libfabric reliable-datagram endpoint that reaches every peer. See
// README.md for credits and what bounds memory.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/packet.h"
#include "base/settings.h"
#include "base/status.h"

namespace floe {

namespace fabric {
class Rail;
struct Link;
struct Slot;
struct LinkHeader;
}  // namespace fabric

struct FabricOptions {
  std::string provider;   // FLOE_PROVIDER; "": choose
  std::string interface;  // FLOE_IFNAME; "": choose
  std::string route_to;   // host or IP whose route picks the interface; "": the default route's
  bool one_host = false;  // all ranks are here: bind to loopback where the provider binds to an address
  PortRange ports;        // where the provider binds to a port
  uint32_t rails = 1;     // FLOE_RAILS: interfaces to stripe over
  bool always_registers =
      false;  // FLOE_FABRIC_MR=always: memory that the provider needs no registration of, too
};

class FabricTransport final : public Transport {
 public:
  // Loads libfabric and opens an endpoint on each rail. FLOE_ERR_TRANSPORT, FLOE_ERR_ENVIRONMENT (no such
  // provider or interface; says which there are), FLOE_ERR_SYSTEM.
  static Result<std::unique_ptr<FabricTransport>> open(const FabricOptions& options);
  // Blocks for at most 0.1 s while what was sent leaves. In a forked child it touches nothing.
  ~FabricTransport() override;

  // For add_peer on the other ranks: printable, at most 1 KiB.
  const std::string& address() const { return address_; }

  // Whether that of any rank is of loopback, so that only ranks of one network reach it.
  static bool is_loopback(const std::string& address);

  // This host's IP address towards the others.
  const std::string& host_address() const { return host_address_; }

  // Makes the endpoints at `address` a peer: `who` names it in messages. The same ones again are the same
  // PeerId, with one more reference. Packets of a peer are lost that arrive before it is added.
  // FLOE_ERR_MISMATCH (another provider or libfabric), FLOE_ERR_TRANSPORT (malformed, or failed earlier),
  // FLOE_ERR_SYSTEM (no memory for its buffers).
  Result<PeerId> add_peer(const std::string& address, const std::string& who);
  // Gives one reference back. Without any, the peer's packets are dropped and its loss is not reported.
  void remove_peer(PeerId peer);

  std::string_view name() const override { return name_; }
  size_t max_payload() const override { return max_payload_; }
  bool queues() const override { return true; }
  bool try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) override;
  int progress(PacketSink& sink) override;
  int wait_fd() override;
  bool prepare_wait() override;

  // Whether every packet has left this rank.
  bool idle() const;
  // Messages that came from no peer, or were malformed.
  uint64_t dropped() const { return dropped_; }

 private:
  FabricTransport(std::vector<std::unique_ptr<fabric::Rail>> rails, uint64_t id);
  Status make_wait_fd();

  void repost(fabric::Slot& slot);
  void read_completions(fabric::Rail& rail, PacketSink& sink, int* events);
  void on_completion(fabric::Slot& slot, size_t bytes, PacketSink& sink);
  void on_failed_completion(fabric::Rail& rail);
  void on_message(fabric::Slot& slot, size_t bytes, PacketSink& sink);
  void on_link_packet(fabric::Link& link, const fabric::LinkHeader& header, fabric::Slot& slot,
                      PacketSink& sink);
  void deliver(fabric::Link& link, PacketSink& sink);
  void send_credits();
  std::span<fabric::Rail* const> rails_by_load(size_t bytes);
  bool send_slot(fabric::Link& link, fabric::Slot& slot, size_t bytes);
  void refused(fabric::Link& link, const fabric::Rail& rail);
  void drop(std::string_view why);
  void lose(fabric::Link& link, Status why);
  void lose_all(const Status& why);
  void report_losses(PacketSink& sink);
  void drain();
  bool take_back_everything();
  void leak();

  const pid_t pid_;
  const uint64_t id_;
  const std::string address_;
  const std::string host_address_;
  const std::string name_;
  const size_t max_payload_;
  std::vector<std::unique_ptr<fabric::Link>> links_;  // by PeerId; never removed: the peer's counters go on
  std::vector<std::unique_ptr<fabric::Rail>> rails_;
  std::vector<fabric::Rail*> by_load_;
  size_t turn_ = 0;    // of the next large packet
  UniqueFd wait_fds_;  // an epoll descriptor of all rails', if they are several

  std::unordered_map<uint64_t, fabric::Link*> link_of_;  // by the peer's endpoint id
  std::vector<fabric::Link*> credits_due_;
  std::vector<fabric::Link*> losses_;  // not reported yet
  uint64_t dropped_ = 0;
};

}  // namespace floe
