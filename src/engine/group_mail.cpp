// Letters: what ranks of several hosts tell each other while they shrink.
#include "engine/group.h"

namespace floe {

Group::Letter& Group::letter(uint32_t peer, size_t slot) {
  if (mail_.empty()) mail_.resize(size());
  return mail_[peer][slot];
}

void Group::keep_letter(const PacketHeader& header, std::span<const std::byte> payload) {
  if (header.tag >= Letter::kSlots || payload.size() > Letter::kMostBytes) return;
  letter(header.source, header.tag) = {
      header.id, {reinterpret_cast<const char*>(payload.data()), payload.size()}, true};
}

void Group::post(uint32_t peer, size_t slot, uint64_t id, std::string_view text) {
  PacketHeader header;
  header.kind = PacketKind::kMail;
  header.tag = slot;
  header.id = id;
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  messenger_.control(peer, header, {bytes, bytes + std::min(text.size(), Letter::kMostBytes)});
  published_ = true;
}

int Group::progress_mail() {
  int moved = config_.shm ? config_.shm->progress(*this) : 0;
  moved += messenger_.pump();
  wake_peers();
  return moved;
}

}  // namespace floe
