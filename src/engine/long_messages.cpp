// Of the messenger: messages that are announced, and sent once their receiver is ready.
#include "base/ticks.h"
#include "engine/messenger.h"

namespace floe {

bool Messenger::announce(uint32_t peer, Lane& lane, Transfer& send) {
  const Route& route = routes_[peer];
  PacketHeader h = first_packet(PacketKind::kAnnounce, send);
  h.id = next_id_;
  if (!route.transport->try_send(route.peer, h, {})) return false;
  send.id = next_id_++;
  announced_.emplace(send.id, &send);
  if (is_callers(send)) ++lane.announced[send.tag];
  return true;
}

void Messenger::ready(Transfer& receive, const PacketHeader& h) {
  receive.id = next_id_++;
  receiving_.emplace(receive.id, &receive);
  PacketHeader ready = header(PacketKind::kReady);
  ready.id = h.id;
  ready.offset = receive.id;
  ready.bytes = receive.past_cache && !sends_long() ? 1 : 0;
  control(h.source, ready);
}

void Messenger::on_ready(const PacketHeader& h) {
  const auto found = announced_.find(h.id);
  if (found == announced_.end() || found->second->peer != h.source)
    return bad_packet(h, "ready for a message that was not announced");
  Transfer& send = *found->second;
  announced_.erase(found);
  send.peer_id = h.offset;
  send.past_cache = h.bytes != 0;
  send.moved = 0;
  lanes_[h.source].streams.push_back(&send);
}

bool Messenger::stream_packet(uint32_t peer, Transfer& send) {
  PacketHeader h = header(send.past_cache ? PacketKind::kDataPast : PacketKind::kData);
  h.id = send.peer_id;
  h.bytes = send.bytes;
  return send_part(peer, h, send);
}

void Messenger::end_stream(Lane& lane) {
  Transfer& send = *lane.streams.front();
  lane.streams.pop_front();
  if (is_callers(send)) {
    const auto same_tag = lane.announced.find(send.tag);
    if (--same_tag->second == 0) lane.announced.erase(same_tag);
  }
  send.owner->on_transfer(send);
}

void Messenger::on_data(const PacketHeader& h, std::span<const std::byte> payload) {
  const auto found = receiving_.find(h.id);
  if (found == receiving_.end()) return bad_packet(h, "data for a message that is not being received");
  Transfer& receive = *found->second;
  if (receive.moved == 0) receive.begin = ticks();
  if (!take_part(receive, h, payload)) return;
  receiving_.erase(found);
  // All since the first packet counts: how it is kept also changes how soon the peer can copy what is next.
  if (is_large(receive))
    keep_trials_.of(receive.bytes)
        .took(static_cast<double>(ticks() - receive.begin) / static_cast<double>(receive.bytes));
  receive.owner->on_transfer(receive);
}

}  // namespace floe
