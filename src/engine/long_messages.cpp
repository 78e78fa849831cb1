// Of the messenger: messages that are announced, and sent once their receiver is ready.
#include <algorithm>
#include <memory>

#include "base/log.h"
#include "base/ticks.h"
#include "engine/messenger.h"

namespace floe {

bool Messenger::announce(uint32_t peer, Lane& lane, Transfer& send) {
  const Route& route = routes_[peer];
  PacketHeader h = first_packet(PacketKind::kAnnounce, send);
  h.id = next_id_;
  if (route.transport->gives_memory()) h.offset = reinterpret_cast<uint64_t>(send.data);
  if (h.offset != 0) h.fetches = fetch_trials(lane).mutual.of(send.bytes).next() ? 1 : 0;
  if (!route.transport->try_send(route.peer, h, {})) return false;
  send.id = next_id_++;
  announced_.emplace(send.id, &send);
  ++lane.long_out;
  if (is_callers(send)) ++lane.announced[send.tag];
  return true;
}

Messenger::FetchTrials& Messenger::fetch_trials(Lane& lane) {
  if (!lane.fetch_trials) lane.fetch_trials = std::make_unique<FetchTrials>();
  return *lane.fetch_trials;
}

void Messenger::receive_long(Transfer& receive, const PacketHeader& h) {
  Lane& lane = lanes_[h.source];
  receive.peer_id = h.id;
  receive.begin = 0;
  receive.fetch_trial = nullptr;
  if (h.offset == 0 || !lane.may_fetch) return ready(receive);
  receive.address = h.offset;
  receive.matched = ticks();
  const bool mutual = lane.long_out != 0, follows = mutual && h.source < rank_;
  if (!follows) {
    FetchTrials& trials = fetch_trials(lane);
    receive.fetch_trial = &(mutual ? trials.mutual : trials.one_way).of(receive.bytes);
  }
  const bool fetches = follows ? h.fetches != 0 : receive.fetch_trial->next();
  fetches ? lane.fetches.push_back(&receive) : ready(receive);
}

void Messenger::end_long_receive(Transfer& receive) {
  const auto per_byte = [&](uint64_t since) {
    return static_cast<double>(ticks() - since) / static_cast<double>(receive.bytes);
  };
  if (receive.fetch_trial) receive.fetch_trial->took(per_byte(receive.matched));
  // All since the first packet counts: how it is kept also changes how soon the peer can copy what is next.
  if (receive.begin != 0 && is_large(receive)) keep_trials_.of(receive.bytes).took(per_byte(receive.begin));
  receive.owner->on_transfer(receive);
}

void Messenger::ready(Transfer& receive) {
  receive.past_cache = is_large(receive) && keep_trials_.of(receive.bytes).next();
  receive.id = next_id_++;
  receiving_.emplace(receive.id, &receive);
  PacketHeader ready = header(PacketKind::kReady);
  ready.id = receive.peer_id;
  ready.offset = receive.id;
  ready.bytes = receive.past_cache && !sends_long() ? 1 : 0;
  control(receive.peer, ready);
}

Transfer* Messenger::take_announced(const PacketHeader& h) {
  const auto found = announced_.find(h.id);
  if (found == announced_.end() || found->second->peer != h.source) {
    bad_packet(h, "an answer to a message that was not announced");
    return nullptr;
  }
  Transfer* const send = found->second;
  announced_.erase(found);
  return send;
}

void Messenger::on_ready(const PacketHeader& h) {
  Transfer* const announced = take_announced(h);
  if (!announced) return;
  Transfer& send = *announced;
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

void Messenger::end_long_send(Lane& lane, Transfer& send) {
  --lane.long_out;
  if (is_callers(send)) {
    const auto same_tag = lane.announced.find(send.tag);
    if (--same_tag->second == 0) lane.announced.erase(same_tag);
  }
  send.owner->on_transfer(send);
}

// Of one message at a time, and no more of it at once than others can wait for.
int Messenger::fetch_slice(uint32_t peer, Lane& lane) {
  constexpr uint64_t kSlice = 1 << 20;
  const Route& route = routes_[peer];
  Transfer& receive = *lane.fetches.front();
  const uint64_t bytes = std::min(receive.bytes - receive.moved, kSlice);
  const Status fetched = route.transport->fetch(route.peer, receive.address + receive.moved,
                                                {receive.data + receive.moved, bytes});
  if (fetched.ok()) {
    receive.moved += bytes;
    if (receive.moved < receive.bytes) return 1;
  }
  lane.fetches.erase(lane.fetches.begin());
  if (!fetched.ok()) {
    log(LogLevel::kInfo, "rank {} fetches no long messages from rank {} any more, which sends them: {}",
        rank_, peer, fetched.message());
    lane.may_fetch = false;
    receive.moved = 0;
    receive.fetch_trial = nullptr;
    ready(receive);
    return 1;
  }
  PacketHeader end = header(PacketKind::kFetched);
  end.id = receive.peer_id;
  control(peer, end);
  end_long_receive(receive);
  return 1;
}

void Messenger::on_fetched(const PacketHeader& h) {
  if (Transfer* const send = take_announced(h)) end_long_send(lanes_[h.source], *send);
}

void Messenger::on_data(const PacketHeader& h, std::span<const std::byte> payload) {
  const auto found = receiving_.find(h.id);
  if (found == receiving_.end()) return bad_packet(h, "data for a message that is not being received");
  Transfer& receive = *found->second;
  if (receive.moved == 0) receive.begin = ticks();
  if (!take_part(receive, h, payload)) return;
  receiving_.erase(found);
  end_long_receive(receive);
}

}  // namespace floe
