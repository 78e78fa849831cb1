#include "engine/messenger.h"

#include <algorithm>
#include <utility>

#include "base/copy.h"
#include "engine/operation.h"

namespace floe {
namespace {

bool try_send(const Messenger::Route& to, const PacketHeader& header, const Message& message,
              std::span<const std::byte> payload) {
  return message.alone ? to.transport->try_send_in_parts(to.peer, header, payload)
                       : to.transport->try_send(to.peer, header, payload);
}

// The C library copies more than some 2 KiB by x86's string instruction, which is slow to begin on lines that
// another core has just written: messages of 3 to 8 KiB took a quarter longer (Zen 4, glibc 2.36).
// `all`: bytes of the message. As much may go the other way.
void take_out(std::byte* to, std::span<const std::byte> payload, uint64_t all, CopyIn& copy_in) {
  constexpr size_t kMost = 16 << 10;
  if (all <= kMost)
    copy_by_vectors(to, payload.data(), payload.size());
  else
    copy_in(to, payload.data(), payload.size(), 2 * all);
}

}  // namespace

void TransferOwner::on_message(Transfer& receive, std::span<const std::byte> payload, CopyIn& copy_in) {
  take_out(receive.data, payload, payload.size(), copy_in);
  on_transfer(receive);
}

Messenger::Messenger(uint64_t comm, uint32_t rank, std::vector<Route> routes, uint64_t cache_bytes)
    : comm_(comm),
      rank_(rank),
      routes_(std::move(routes)),
      lanes_(routes_.size()),
      cache_bytes_(cache_bytes),
      keep_trials_(cache_bytes / 4) {}

PacketHeader Messenger::header(PacketKind kind) const {
  return {.kind = kind, .source = rank_, .comm = comm_, .descriptor = {}};
}

void Messenger::set_problem(const PacketHeader& header, Status status) {
  if (!problem_.ok()) return;  // the first one counts
  problem_ = std::move(status);
  problem_rank_ = header.source;
}

void Messenger::bad_packet(const PacketHeader& header, std::string_view what) {
  set_problem(header, error(FLOE_ERR_INTERNAL, "rank {} sent an invalid packet (kind {}): {}", header.source,
                            static_cast<int>(header.kind), what));
}

void Messenger::send(Transfer& transfer) {
  Lane& lane = lanes_[transfer.peer];
  transfer.moved = 0;
  transfer.data_kind = PacketKind::kData;
  lane.messages.push_back(&transfer);
  pump_lane(transfer.peer, lane);
}

void Messenger::receive(Transfer& transfer) {
  const auto message = matcher_.post(transfer);
  if (!message) return;
  const PacketHeader& h = message->header;
  if (h.kind == PacketKind::kEager && message->payload.size() < h.bytes)
    lanes_[h.source].arriving_kept = nullptr;
  deliver(transfer, h, message->payload);
}

void Messenger::move(Transfer& from, Transfer& to) {
  if (matcher_.move(from, to)) return;
  if (Lane& lane = lanes_[from.peer]; lane.arriving == &from)
    lane.arriving = &to;
  else if (const auto at = std::ranges::find(lane.fetches, &from); at != lane.fetches.end())
    *at = &to;
  else if (const auto found = receiving_.find(from.id); found != receiving_.end())
    found->second = &to;
}

void Messenger::control(uint32_t peer, const PacketHeader& from, std::vector<std::byte> payload) {
  PacketHeader h = from;
  h.source = rank_;
  h.comm = comm_;
  lanes_[peer].control.push_back({h, std::move(payload)});
  pump_lane(peer, lanes_[peer]);
}

int Messenger::pump() {
  int packets = 0;
  for (uint32_t peer = 0; peer < lanes_.size(); ++peer) {
    Lane& lane = lanes_[peer];
    if (lane.empty()) continue;
    packets += pump_lane(peer, lane);
    if (!lane.fetches.empty()) packets += fetch_slice(peer, lane);
  }
  return packets;
}

int Messenger::pump_lane(uint32_t peer, Lane& lane) {
  constexpr int kPacketsPerTurn = 16;  // then other peers and operations get theirs
  const Route& route = routes_[peer];
  int packets = 0;
  while (!lane.control.empty()) {
    const Control& next = lane.control.front();
    if (!route.transport->try_send(route.peer, next.header, next.payload)) return packets;
    lane.control.pop_front();
    ++packets;
  }
  while (!lane.messages.empty() && packets < kPacketsPerTurn) {
    Transfer* const send = lane.messages.front();
    const bool eager = is_eager(peer, lane, *send);
    if (!(eager ? send_eagerly(peer, lane, *send) : announce(peer, lane, *send))) return packets;
    ++packets;
    if (eager && send->moved < send->bytes) continue;
    lane.messages.pop_front();  // first: the owner may post another send from on_transfer
    if (eager) send->owner->on_transfer(*send);
  }
  while (!lane.streams.empty() && packets < kPacketsPerTurn) {
    Transfer* const send = lane.streams.front();
    if (!stream_packet(peer, lane, *send)) return packets;
    ++packets;
    if (send->moved < send->bytes) continue;
    lane.streams.pop_front();
    end_long_send(lane, *send);
  }
  return packets;
}

PacketHeader Messenger::first_packet(PacketKind kind, const Message& send) const {
  return {.kind = kind,
          .source = rank_,
          .comm = comm_,
          .tag = send.tag,
          .bytes = send.bytes,
          .descriptor = is_callers(send) ? Descriptor{} : send.descriptor};
}

bool Messenger::is_eager(uint32_t peer, const Lane& lane, const Transfer& send) const {
  if (send.moved != 0) return true;  // it has begun to be
  const Transport& transport = *routes_[peer].transport;
  return may_be_eager(lane, send) &&
         (send.bytes <= kEagerPackets * transport.max_payload() || transport.queues()) &&
         !(send.mutual && is_long_if_mutual(transport, lane, send.bytes));
}

bool Messenger::is_long_if_mutual(const Transport& transport, const Lane& lane, uint64_t bytes) {
  return (bytes > kMostMutualEager && transport.gives_memory() && lane.may_fetch) ||
         (bytes > kMostMutualUnanswered && transport.most_answered() != 0);
}

bool Messenger::may_be_eager(const Lane& lane, const Message& send) {
  // A collective's tags are all different.
  return send.bytes <= kEagerWindow - lane.eager_out &&
         !(is_callers(send) && lane.announced.contains(send.tag));
}

// Its next packet.
bool Messenger::send_eagerly(uint32_t peer, Lane& lane, Transfer& send) {
  const bool first = send.moved == 0;
  PacketHeader h = first_packet(first ? PacketKind::kEager : PacketKind::kMore, send);
  if (!send_part(peer, h, send)) return false;
  if (first) lane.eager_out += send.bytes;
  return true;
}

bool Messenger::send_at_once(const Message& send) {
  Lane& lane = lanes_[send.peer];
  const Route& route = routes_[send.peer];
  if (!lane.empty() || !may_be_eager(lane, send) || send.bytes > route.transport->max_payload()) return false;
  if (!try_send(route, first_packet(PacketKind::kEager, send), send, {send.data, send.bytes})) return false;
  lane.eager_out += send.bytes;
  return true;
}

bool Messenger::take_at_once(const Message& receive, const PacketHeader& h,
                             std::span<const std::byte> payload) {
  if (payload.size() != h.bytes) return false;
  Lane& lane = lanes_[h.source];
  take_out(receive.data, payload, h.bytes, lane.copy_in);
  lane.refusals = 0;
  lane.eager_in += h.bytes;
  consumed(h.source, h.bytes);
  return true;
}

// In even packets, unless they queue: of a full one and a short one the receiver would get the first later.
uint64_t Messenger::next_part(const Transport& transport, const Transfer& send) {
  constexpr uint64_t kLine = 64, kMostQueued = 60 << 10;  // see chunk_count() of coll/chunks.h
  const bool swapped = send.data_kind == PacketKind::kDataSwap;
  const uint64_t room = swapped ? transport.most_answered() : transport.max_payload();
  const uint64_t size = send.bytes - send.moved;
  if (send.bytes > room && transport.queues()) return std::min({size, room, kMostQueued});
  if (size <= room) return size;
  const uint64_t packets = (size + room - 1) / room, even = (size + packets - 1) / packets;
  return std::min(room, (even + kLine - 1) / kLine * kLine);
}

bool Messenger::send_part(uint32_t peer, PacketHeader& h, Transfer& send) {
  const Route& route = routes_[peer];
  const uint64_t size = next_part(*route.transport, send);
  h.offset = send.moved;
  if (!try_send(route, h, send, {place(send, size), size})) return false;
  send.moved += size;
  return true;
}

void Messenger::on_packet(const PacketHeader& h, std::span<const std::byte> payload) {
  switch (h.kind) {
    case PacketKind::kEager:
    case PacketKind::kAnnounce: return on_first(h, payload);
    case PacketKind::kMore: return on_more(h, payload);
    case PacketKind::kData:
    case PacketKind::kDataPast:
    case PacketKind::kDataSwap: return on_data(h, payload);
    case PacketKind::kReady: return on_ready(h);
    case PacketKind::kFetched: return on_fetched(h);
    case PacketKind::kConsumed: {
      Lane& lane = lanes_[h.source];
      if (h.bytes > lane.eager_out) return bad_packet(h, "it gives back more than was sent");
      lane.eager_out -= h.bytes;
      return;
    }
    default: return bad_packet(h, "unknown kind");
  }
}

bool Messenger::wants(const PacketHeader& h) {
  Lane& lane = lanes_[h.source];
  const auto is_waited_for = [&] {
    // What is waited for may be behind a small one.
    return h.bytes < kSmall ? matcher_.has_any() : matcher_.has({h.descriptor.lane, h.source, h.tag});
  };
  const bool kept = (h.kind == PacketKind::kEager && !is_waited_for()) ||
                    (h.kind == PacketKind::kMore && lane.arriving_kept);
  if (!kept) lane.refusals = 0;
  if (!kept || lane.refusals == kPatience) return true;
  ++lane.refusals;
  return false;
}

void Messenger::hurry() {
  for (Lane& lane : lanes_) lane.refusals = kPatience;
}

void Messenger::on_first(const PacketHeader& h, std::span<const std::byte> payload) {
  Lane& lane = lanes_[h.source];
  const bool eager = h.kind == PacketKind::kEager;
  if (payload.size() > (eager ? h.bytes : 0) || (payload.empty() && eager && h.bytes != 0))
    return bad_packet(h, "its payload does not have the announced size");
  if (eager) {
    if (h.bytes > kEagerWindow - lane.eager_in) return bad_packet(h, "more than may be sent unasked");
    if (lane.arriving || lane.arriving_kept) return bad_packet(h, "the message before it is not whole");
    lane.eager_in += h.bytes;
  }
  const Matcher::Key key{h.descriptor.lane, h.source, h.tag};
  if (Transfer* const receive = matcher_.match(key)) return deliver(*receive, h, payload);
  std::vector<std::byte> copy;
  if (eager) copy.reserve(h.bytes);
  copy.assign(payload.begin(), payload.end());
  Unexpected* const kept = matcher_.keep({h, std::move(copy)});
  if (eager && payload.size() < h.bytes) lane.arriving_kept = kept;
}

void Messenger::on_more(const PacketHeader& h, std::span<const std::byte> payload) {
  Lane& lane = lanes_[h.source];
  if (lane.arriving) {
    Transfer& receive = *lane.arriving;
    if (!continues(receive, h, payload)) return;
    take_part(receive, payload);
    if (receive.moved < receive.bytes) return;
    lane.arriving = nullptr;
    consumed(h.source, receive.bytes);
    receive.owner->on_transfer(receive);
    return;
  }
  if (!lane.arriving_kept) return bad_packet(h, "data for a message that has not begun");
  Unexpected& message = *lane.arriving_kept;
  std::vector<std::byte>& kept = message.payload;
  if (h.offset != kept.size() || payload.empty() || payload.size() > message.header.bytes - kept.size())
    return bad_packet(h, "data that does not continue its message");
  kept.insert(kept.end(), payload.begin(), payload.end());
  if (kept.size() == message.header.bytes) lane.arriving_kept = nullptr;
}

void Messenger::deliver(Transfer& receive, const PacketHeader& h, std::span<const std::byte> payload) {
  const bool collective = receive.descriptor.lane != 0, eager = h.kind == PacketKind::kEager;
  if (collective && !(receive.descriptor == h.descriptor))
    return set_problem(h, mismatch(h.source, h.descriptor, rank_, receive.descriptor));
  if (collective && h.bytes != receive.bytes) {
    if (is_v_form(h.descriptor.kind))
      return set_problem(h, size_mismatch(h.descriptor, h.source, h.bytes, rank_, receive.bytes));
    return bad_packet(h, "a collective's message has the wrong size");
  }
  receive.peer = h.source;
  if (h.bytes > receive.bytes) {
    return set_problem(
        h, error(FLOE_ERR_TRUNCATED,
                 "rank {} sent {} bytes with tag {:#x} to rank {}, whose receive has room for {}", h.source,
                 h.bytes, h.tag, rank_, receive.bytes));
  }
  receive.sources.clear();  // the others are not waited for any more
  receive.bytes = h.bytes;
  receive.moved = 0;
  receive.data_kind = PacketKind::kData;
  if (!eager) return receive_long(receive, h);
  if (payload.size() == h.bytes) {
    receive.owner->on_message(receive, payload, lanes_[h.source].copy_in);
    return consumed(h.source, h.bytes);
  }
  take_out(receive.data, payload, h.bytes, lanes_[h.source].copy_in);
  receive.moved = payload.size();
  lanes_[h.source].arriving = &receive;
}

bool Messenger::continues(const Transfer& receive, const PacketHeader& h,
                          std::span<const std::byte> payload) {
  if (receive.peer == h.source && h.offset == receive.moved && payload.empty() == (receive.bytes == 0) &&
      payload.size() <= receive.bytes - receive.moved)
    return true;
  bad_packet(h, "data that does not continue its message");
  return false;
}

void Messenger::take_part(Transfer& receive, std::span<const std::byte> payload) {
  std::byte* const to = place(receive, payload.size());
  if (receive.past_cache)
    copy_non_temporal(to, payload.data(), payload.size());
  else
    take_out(to, payload, receive.bytes, lanes_[receive.peer].copy_in);
  receive.moved += payload.size();
}

void Messenger::consumed(uint32_t source, uint64_t bytes) {
  Lane& lane = lanes_[source];
  lane.consumed += bytes;
  if (lane.consumed < kEagerWindow / 4) return;
  PacketHeader h = header(PacketKind::kConsumed);
  h.bytes = std::exchange(lane.consumed, 0);
  lane.eager_in -= h.bytes;
  control(source, h);
}

void Messenger::clear() {
  matcher_.clear();
  announced_.clear();
  receiving_.clear();
  for (Lane& lane : lanes_) {
    lane.messages.clear();
    lane.streams.clear();
    lane.fetches.clear();
    lane.long_out = lane.swapped_in = 0;
    lane.announced.clear();
    lane.receiving.clear();
    lane.arriving = nullptr;
    lane.arriving_kept = nullptr;
  }
}

}  // namespace floe
