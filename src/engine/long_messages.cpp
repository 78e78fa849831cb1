// Of the messenger: messages that are announced, and sent once their receiver is ready.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/copy.h"
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
  receive.address = h.offset;
  receive.matched = ticks();
  receive.fetch_trial = nullptr;
  LongReceives alone;
  LongReceives& same_tag = is_callers(receive) ? lane.receiving[receive.tag] : alone;
  // Those that go one way end in their order.
  if (same_tag.count++ == 0) same_tag.fetched = is_to_be_fetched(lane, receive, h);
  same_tag.fetched ? lane.fetches.push_back(&receive) : ready(receive);
}

bool Messenger::is_to_be_fetched(Lane& lane, Transfer& receive, const PacketHeader& h) {
  if (h.offset == 0 || !lane.may_fetch) return false;
  const bool mutual = lane.long_out != 0;
  if (mutual && h.source < rank_) return h.fetches != 0;
  FetchTrials& trials = fetch_trials(lane);
  receive.fetch_trial = &(mutual ? trials.mutual : trials.one_way).of(receive.bytes);
  return receive.fetch_trial->next();
}

void Messenger::end_long_receive(Transfer& receive) {
  const auto per_byte = [&](uint64_t since) {
    return static_cast<double>(ticks() - since) / static_cast<double>(receive.bytes);
  };
  if (receive.fetch_trial) receive.fetch_trial->took(per_byte(receive.matched));
  // All since the first packet counts: how it is kept also changes how soon the peer can copy what is next.
  if (receive.begin != 0 && is_large(receive)) keep_trials_.of(receive.bytes).took(per_byte(receive.begin));
  if (is_callers(receive)) {
    Lane& lane = lanes_[receive.peer];
    const auto same_tag = lane.receiving.find(receive.tag);
    if (--same_tag->second.count == 0) lane.receiving.erase(same_tag);
  }
  receive.owner->on_transfer(receive);
}

void Messenger::ready(Transfer& receive) {
  receive.past_cache = is_large(receive) && keep_trials_.of(receive.bytes).next();
  receive.id = next_id_++;
  receiving_.emplace(receive.id, &receive);
  Lane& lane = lanes_[receive.peer];
  receive.data_kind = PacketKind::kData;
  if (lane.long_out != 0 && routes_[receive.peer].transport->most_answered() != 0) {
    receive.data_kind = PacketKind::kDataSwap;
    ++lane.swapped_in;
  } else if (receive.past_cache && !sends_long()) {
    receive.data_kind = PacketKind::kDataPast;
  }
  PacketHeader ready = header(PacketKind::kReady);
  ready.id = receive.peer_id;
  ready.offset = receive.id;
  ready.bytes = static_cast<uint64_t>(receive.data_kind);
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
  const auto kind = static_cast<PacketKind>(h.bytes);
  const bool swapped = h.bytes == static_cast<uint64_t>(PacketKind::kDataSwap);
  if (!swapped && h.bytes != static_cast<uint64_t>(PacketKind::kData) &&
      h.bytes != static_cast<uint64_t>(PacketKind::kDataPast))
    return bad_packet(h, "it wants data of a kind that is none");
  Transfer* const announced = take_announced(h);
  if (!announced) return;
  Transfer& send = *announced;
  send.peer_id = h.offset;
  send.data_kind = kind;
  send.moved = 0;
  Lane& lane = lanes_[h.source];
  if (swapped && lane.streams.empty()) lane.may_begin = true;
  lane.streams.push_back(&send);
}

PacketHeader Messenger::data_header(const Transfer& send) const {
  PacketHeader h = header(send.data_kind);
  h.id = send.peer_id;
  h.bytes = send.bytes;
  h.offset = send.moved;
  return h;
}

// As kDataSwap both ranks begin with a packet, and then answer each packet of the other one with the next of
// their own in its place, in one pass. Who gets one and has nothing to answer with, or no room for it, may
// begin anew; and while nothing comes all may. So of two that both wait for packets one is on its way or may
// begin.
bool Messenger::stream_packet(uint32_t peer, Lane& lane, Transfer& send) {
  const bool swapped = send.data_kind == PacketKind::kDataSwap;
  if (swapped && lane.swapped_in != 0 && !lane.may_begin) return false;
  PacketHeader h = data_header(send);
  if (!send_part(peer, h, send)) return false;
  if (swapped) lane.may_begin = false;
  return true;
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
  if (!fetched.ok()) {
    log(LogLevel::kInfo, "rank {} fetches no long messages from rank {} any more, which sends them: {}",
        rank_, peer, fetched.message());
    lane.may_fetch = false;
    for (auto& [tag, receives] : lane.receiving) receives.fetched = false;
    for (Transfer* const unfetched : std::exchange(lane.fetches, {})) {
      unfetched->moved = 0;
      unfetched->fetch_trial = nullptr;
      ready(*unfetched);
    }
    return 1;
  }
  lane.fetches.erase(lane.fetches.begin());
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
  if (!continues(receive, h, payload)) return;
  Lane& lane = lanes_[h.source];
  Transfer* sent = nullptr;
  if (h.kind == PacketKind::kDataSwap)
    sent = answer(h, payload, receive);
  else
    take_part(receive, payload);
  if (receive.moved == receive.bytes) {
    receiving_.erase(found);
    if (receive.data_kind == PacketKind::kDataSwap) --lane.swapped_in;
    end_long_receive(receive);
  }
  if (sent) end_long_send(lane, *sent);
}

// Takes that part, and sends the next one of what goes there in its place, if there is any. Returns that if
// it was the last.
Transfer* Messenger::answer(const PacketHeader& h, std::span<const std::byte> payload, Transfer& receive) {
  Lane& lane = lanes_[h.source];
  const Route& route = routes_[h.source];
  const bool any = !lane.streams.empty() && lane.streams.front()->data_kind == PacketKind::kDataSwap;
  std::span<std::byte> buffer;
  if (any) buffer = route.transport->answer_place(route.peer);
  if (buffer.empty()) {
    lane.may_begin = true;
    take_part(receive, payload);
    return nullptr;
  }
  Transfer& send = *lane.streams.front();
  const PacketHeader next = data_header(send);
  const uint64_t bytes = next_part(*route.transport, send);
  if (receive.past_cache) {
    take_part(receive, payload);
    copy_bytes(buffer.data(), place(send, bytes), bytes);
  } else {
    swap_from_core(place(receive, payload.size()), payload.size(), buffer.data(), place(send, bytes), bytes);
    receive.moved += payload.size();
  }
  route.transport->answer(route.peer, next, bytes);
  send.moved += bytes;
  if (send.moved < send.bytes) return nullptr;
  lane.streams.pop_front();
  return &send;
}

}  // namespace floe
