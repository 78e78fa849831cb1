#include "fabric/link.h"

#include <algorithm>
#include <cstring>

namespace floe::fabric {

ParsedMessage parse_message(std::span<const std::byte> message, uint64_t own_id) {
  LinkHeader header;
  if (message.size() < sizeof header) return {{}, "it is shorter than a header"};
  std::memcpy(&header, message.data(), sizeof header);
  if (header.magic != LinkHeader::kMagic) return {{}, "it does not start with floe's magic number"};
  if (header.version != LinkHeader::kVersion) return {{}, "it has another version"};
  if (header.to != own_id) return {{}, "it is addressed to another endpoint"};
  const size_t body = message.size() - sizeof header;
  switch (header.kind) {
    case LinkKind::kCredit:
      if (body != 0) return {{}, "it is a credit with a body"};
      return {header, {}};
    case LinkKind::kPacket:
      if (body < sizeof(PacketHeader) || body - sizeof(PacketHeader) != header.payload)
        return {{}, "its length is not what its header says"};
      return {header, {}};
  }
  return {{}, "it is of an unknown kind"};
}

LinkHeader Link::make_header(LinkKind kind, uint64_t from) const {
  LinkHeader header;
  header.kind = kind;
  header.from = from;
  header.to = id;
  header.sequence = sent;
  header.consumed = consumed;
  return header;
}

std::string_view Link::take(const LinkHeader& header, Slot& slot) {
  if (header.consumed > sent) return "it acknowledges packets that were not sent";
  // A message may overtake an older one: its count is then the older.
  acknowledged = std::max(acknowledged, header.consumed);
  if (header.kind == LinkKind::kCredit) return {};
  if (header.sequence - consumed >= kWindow) return "a packet's number is outside its window";
  Slot*& place = early[header.sequence % kWindow];
  if (place) return "two packets have one number";
  place = &slot;
  return {};
}

}  // namespace floe::fabric
