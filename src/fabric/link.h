// A link: what this endpoint and one peer's have sent each other, and the header that every message between
// endpoints starts with.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packet.h"
#include "fabric/buffers.h"

namespace floe::fabric {

// Packets that a sender may have under way to one receiver, which has posted a buffer for each.
constexpr uint64_t kWindow = 16;
// A receiver returns credits in a message of its own when this many packets are not yet reported. At most
// kWindow / kReportEvery such messages are under way to a peer that does not progress.
constexpr uint64_t kReportEvery = kWindow / 2;
constexpr size_t kReceivesPerLink = kWindow + kWindow / kReportEvery;

enum class LinkKind : uint8_t {
  kPacket = 1,  // a PacketHeader and its payload follow
  kCredit,      // nothing follows; not numbered, and needs no credit
};

// Fixed little-endian wire form.
struct LinkHeader {
  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  LinkKind kind{};
  uint16_t reserved = 0;
  uint64_t from = 0;      // sender's endpoint id
  uint64_t to = 0;        // receiver's, which only ranks of its job know: authenticates, and tells epochs
  uint64_t sequence = 0;  // kPacket: packets sent to this receiver before
  uint64_t consumed = 0;  // packets of the receiver's that the sender has taken
  uint32_t payload = 0;   // bytes after the PacketHeader
  uint32_t reserved2 = 0;

  static constexpr uint32_t kMagic = 0x656f6c66;  // "floe"
  static constexpr uint8_t kVersion = 1;
};
static_assert(sizeof(LinkHeader) == 48);

constexpr size_t kHeaderBytes = sizeof(LinkHeader) + sizeof(PacketHeader);
// Bytes of payload in one packet. ofi_rxm keeps messages of less than 16 KiB in buffers of its own; larger
// ones live on after their completion, and a peer that closes then makes libfabric 2.5.1 crash.
constexpr size_t max_payload(std::string_view provider) {
  return provider.ends_with(";ofi_rxm") ? size_t{15} << 10 : size_t{64} << 10;
}
// A packet's buffer: whole cache lines.
constexpr size_t slot_bytes(size_t payload) { return (kHeaderBytes + payload + 63) / 64 * 64; }

// The header of a message of any origin, checked against its length and `own_id`; else why it is none.
struct ParsedMessage {
  std::optional<LinkHeader> header;
  std::string_view problem;
};
ParsedMessage parse_message(std::span<const std::byte> message, uint64_t own_id);

struct Link {
  PeerId peer = 0;
  uint64_t id = 0;  // the peer's endpoint
  struct Way {
    uint64_t address = 0;  // libfabric's fi_addr_t
    bool used = false;     // something has been sent: it was connected
    std::optional<std::chrono::steady_clock::time_point> refused_since;
    bool warned = false;
  };
  std::vector<Way> ways;  // to it, on each rail
  std::string who;
  uint32_t references = 0;

  uint64_t sent = 0;
  uint64_t acknowledged = 0;  // <= sent <= acknowledged + kWindow
  uint64_t consumed = 0;      // packets of the peer's that this rank has taken, in order
  uint64_t reported = 0;      // <= consumed: what the peer has been told
  // Packets that overtook others, by sequence % kWindow: providers match messages in order, but may complete
  // a small one before a large one.
  std::array<Slot*, kWindow> early{};

  Slot* credit = nullptr;  // its own buffer, so that a credit never waits for one
  bool credit_in_flight = false;
  bool credit_due = false;  // is in the transport's list

  std::optional<Status> lost;

  bool has_credit() const { return sent - acknowledged < kWindow; }
  bool must_report() const { return consumed - reported >= kReportEvery; }
  LinkHeader make_header(LinkKind kind, uint64_t from) const;
  // What a parsed message of the peer's says: a packet's slot is kept until it is the next. Why the peer must
  // not be believed any more, or "".
  std::string_view take(const LinkHeader& header, Slot& slot);
  // The packet to deliver now, which is not kept any more, or null; `consumed` counts it once its slot is
  // posted.
  Slot* next() { return std::exchange(early[consumed % kWindow], nullptr); }
};

}  // namespace floe::fabric
