#include "fabric/fabric_transport.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"
#include "fabric/address.h"
#include "fabric/link.h"
#include "fabric/rail.h"

namespace floe {

using fabric::Endpoint;
using fabric::EndpointAddress;
using fabric::kHeaderBytes;
using fabric::Link;
using fabric::LinkHeader;
using fabric::LinkKind;
using fabric::Rail;
using fabric::Slot;

namespace {

// A peer that was connected and can no longer be connected to for this long is lost.
constexpr auto kUnreachable = std::chrono::seconds(6);
constexpr size_t kSmall = 4096;  // bytes of packets that the first rail carries unless it has others
constexpr Millis kLinger(50);    // and as long again to take back the receives

// Takes what still arrives while the transport closes.
class Discard final : public PacketSink {
  void on_packet(const PacketHeader&, std::span<const std::byte>) override {}
  void on_peer_lost(PeerId, const Status&) override {}
};

EndpointAddress address_of(const fabric::Rails& rails, uint64_t id) {
  const Endpoint& first = rails[0]->endpoint();
  EndpointAddress address{first.lib().version(), first.provider(), first.name_format(), {}, id};
  for (const auto& rail : rails) address.names.push_back(rail->endpoint().name());
  return address;
}

}  // namespace

Result<std::unique_ptr<FabricTransport>> FabricTransport::open(const FabricOptions& options) {
  const fabric::SignalGuard guard;  // providers initialise themselves at the first fi_getinfo
  auto lib = fabric::Libfabric::load();
  if (!lib.ok()) return lib.status();
  uint64_t id = 0;
  if (::getrandom(&id, sizeof id, 0) != sizeof id) return system_error("getrandom", errno);
  auto rails = fabric::open_rails(*lib, options, id);
  if (!rails.ok()) return rails.status();
  std::unique_ptr<FabricTransport> transport(new FabricTransport(std::move(*rails), id));
  FLOE_TRY(transport->make_wait_fd());
  for (const auto& rail : transport->rails_)
    log(LogLevel::kInfo, "fabric: libfabric {}, provider {}, {}", lib->version(), rail->endpoint().provider(),
        rail->endpoint().device());
  return transport;
}

FabricTransport::FabricTransport(fabric::Rails rails, uint64_t id)
    : pid_(::getpid()),
      id_(id),
      address_(address_of(rails, id).to_text()),
      host_address_(rails[0]->endpoint().host_address()),
      name_("fabric " + rails[0]->endpoint().provider()),
      max_payload_(fabric::max_payload(rails[0]->endpoint().provider())),
      rails_(std::move(rails)) {
  for (const auto& rail : rails_) by_load_.push_back(rail.get());
}

Status FabricTransport::make_wait_fd() {
  const auto can_wait = [](const auto& rail) { return rail->endpoint().wait_fd() >= 0; };
  if (rails_.size() == 1 || !std::all_of(rails_.begin(), rails_.end(), can_wait)) return {};
  wait_fds_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!wait_fds_.valid()) return system_error("epoll_create1", errno);
  for (const auto& rail : rails_) {
    epoll_event readable{EPOLLIN, {}};
    if (::epoll_ctl(wait_fds_.get(), EPOLL_CTL_ADD, rail->endpoint().wait_fd(), &readable) != 0)
      return system_error("epoll_ctl", errno);
  }
  return {};
}

FabricTransport::~FabricTransport() {
  // A forked child shares the sockets: closing the endpoint there would hang the parent.
  if (::getpid() != pid_) {
    leak();
    return;
  }
  drain();
  const Deadline deadline = Deadline::in(kLinger);
  const auto can_close = [&](const auto& rail) {
    return !rail->endpoint().must_be_idle_to_close() || rail->take_back_everything(deadline);
  };
  if (!std::all_of(rails_.begin(), rails_.end(), can_close)) leak();
}

// Unread data makes the kernel reset a closed connection, and then what was sent last might not arrive.
void FabricTransport::drain() {
  Discard sink;
  const Deadline deadline = Deadline::in(kLinger);
  while ((progress(sink) != 0 || !idle()) && !deadline.passed()) continue;
}

bool FabricTransport::idle() const {
  return std::all_of(rails_.begin(), rails_.end(),
                     [](const auto& rail) { return rail->sends_in_flight() == 0; });
}

void FabricTransport::leak() {
  for (auto& rail : rails_) (void)rail.release();
  for (auto& link : links_) (void)link.release();
}

void FabricTransport::repost(Slot& slot) {
  if (const Status posted = slot.rail->repost(slot); !posted.ok()) lose_all(posted);
}

// ---- Sending --------------------------------------------------------------------------------------------

bool FabricTransport::try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) {
  Link& link = *links_[peer];
  if (payload.size() > max_payload_ && !link.lost)
    lose(link, error(FLOE_ERR_INTERNAL, "a packet of {} bytes to {}", payload.size(), link.who));
  if (link.lost) return true;
  if (!link.has_credit()) return false;
  LinkHeader head = link.make_header(LinkKind::kPacket, id_);
  head.payload = static_cast<uint32_t>(payload.size());
  for (Rail* const rail : rails_by_load(payload.size())) {
    Slot* const slot = rail->take_packet();
    if (!slot) continue;
    std::memcpy(slot->data, &head, sizeof head);
    std::memcpy(slot->data + sizeof head, &header, sizeof header);
    copy_bytes(slot->data + kHeaderBytes, payload.data(), payload.size());
    slot->link = &link;
    if (send_slot(link, *slot, kHeaderBytes + payload.size())) {
      ++link.sent;
      link.reported = head.consumed;
      if (payload.size() > kSmall) turn_ = rail->index() + 1;
      return true;
    }
    rail->give_back(*slot);
    if (link.lost) return true;
  }
  return false;
}

// The one with the least under way first: a slow one takes less. Equal ones, as those are whose sockets have
// taken all, take turns, but what is small and alone goes over the first.
std::span<Rail* const> FabricTransport::rails_by_load(size_t bytes) {
  const size_t n = by_load_.size();
  if (n == 1) return by_load_;
  const size_t first = bytes <= kSmall ? 0 : turn_ % n;
  const auto load = [&](const Rail* rail) {
    return std::pair(rail->bytes_in_flight(), (rail->index() + n - first) % n);
  };
  std::sort(by_load_.begin(), by_load_.end(),
            [&](const Rail* x, const Rail* y) { return load(x) < load(y); });
  return by_load_;
}

bool FabricTransport::send_slot(Link& link, Slot& slot, size_t bytes) {
  Rail& rail = *slot.rail;
  const ssize_t code = rail.send(link.ways[rail.index()].address, slot, bytes);
  if (code == 0) {
    link.ways[rail.index()].refused_since.reset();
    link.ways[rail.index()].used = true;
    return true;
  }
  const Endpoint& endpoint = rail.endpoint();
  if (code == -FI_EAGAIN)
    refused(link, rail);
  else
    lose(link, error(FLOE_ERR_PEER, "{} cannot be reached: provider {}: {}", link.who, endpoint.provider(),
                     endpoint.lib().error_text(static_cast<int>(code))));
  return false;
}

// Connections are made at the first send, which is refused until the peer has answered. Later refusals mean
// that the connection is gone, and providers try again for ever.
void FabricTransport::refused(Link& link, const Rail& rail) {
  Link::Way& way = link.ways[rail.index()];
  const Endpoint& endpoint = rail.endpoint();
  if (!endpoint.refuses_only_unconnected()) return;
  const auto now = Clock::now();
  if (!way.refused_since) way.refused_since = now;
  if (now - *way.refused_since < kUnreachable) return;
  if (way.used) {
    lose(link,
         error(FLOE_ERR_PEER, "{}: its connection is gone and cannot be made again for {} s (provider {})",
               link.who, kUnreachable.count(), endpoint.provider()));
  } else if (rail.index() != 0 && !std::exchange(way.warned, true)) {  // it may only be busy otherwise
    log(LogLevel::kWarn,
        "fabric: {} has not answered for {} s at rail {} ({}): the other rails carry its share; if it can't "
        "be reached from {}, set FLOE_IFNAME on both hosts so that their interfaces match in order",
        link.who, kUnreachable.count(), rail.index(), endpoint.device(), endpoint.host_address());
  }
}

void FabricTransport::send_credits() {
  auto due = std::exchange(credits_due_, {});
  for (Link* const link : due) {
    link->credit_due = false;
    if (link->lost || !link->must_report()) continue;
    if (!link->credit_in_flight) {
      const LinkHeader head = link->make_header(LinkKind::kCredit, id_);
      std::memcpy(link->credit->data, &head, sizeof head);
      if (send_slot(*link, *link->credit, sizeof head)) {
        link->credit_in_flight = true;
        link->reported = head.consumed;
        continue;
      }
    }
    link->credit_due = true;
    credits_due_.push_back(link);
  }
}

// ---- Progress -------------------------------------------------------------------------------------------

int FabricTransport::progress(PacketSink& sink) {
  int events = 0;
  for (const auto& rail : rails_) {
    if (const Status posted = rail->post(); !posted.ok()) lose_all(posted);
    read_completions(*rail, sink, &events);
  }
  if (!credits_due_.empty()) send_credits();
  if (!losses_.empty()) report_losses(sink);
  return events;
}

void FabricTransport::read_completions(Rail& rail, PacketSink& sink, int* events) {
  constexpr int kBatches = 4;  // then the caller's other work gets its turn
  // What a lost peer sent before is handed over first; no more than this can be left of it.
  constexpr int kBatchesAfterLoss = 64;
  for (int batch = 0; batch < (losses_.empty() ? kBatches : kBatchesAfterLoss); ++batch) {
    ssize_t code = 0;
    const auto completions = rail.endpoint().read(&code);
    if (code == -FI_EAGAIN) return;
    if (code == -FI_EAVAIL) {
      on_failed_completion(rail);
      ++*events;
      continue;
    }
    if (code < 0) return lose_all(rail.endpoint().failed("fi_cq_read", static_cast<int>(code)));
    if (completions.empty()) return;
    *events += static_cast<int>(completions.size());
    for (const fi_cq_msg_entry& entry : completions)
      on_completion(Slot::of(entry.op_context), entry.len, sink);
  }
}

void FabricTransport::on_completion(Slot& slot, size_t bytes, PacketSink& sink) {
  if (slot.use == Slot::Use::kReceive) {
    slot.rail->received();
    return on_message(slot, bytes, sink);
  }
  if (slot.use == Slot::Use::kCredit) slot.link->credit_in_flight = false;
  slot.rail->ended(slot);
}

void FabricTransport::on_failed_completion(Rail& rail) {
  const Endpoint::Failure failure = rail.endpoint().take_error();
  if (!failure.slot) return drop(failure.text);
  Slot& slot = *failure.slot;
  if (slot.use == Slot::Use::kReceive) {
    rail.received();
    drop(failure.text);
    return repost(slot);
  }
  lose(*slot.link, error(FLOE_ERR_PEER, "{}: sending to it failed: provider {}: {}", slot.link->who,
                         rail.endpoint().provider(), failure.text));
  if (slot.use == Slot::Use::kCredit) slot.link->credit_in_flight = false;
  rail.ended(slot);
}

void FabricTransport::on_message(Slot& slot, size_t bytes, PacketSink& sink) {
  const auto [header, problem] =
      fabric::parse_message({slot.data, std::min(bytes, fabric::slot_bytes(max_payload_))}, id_);
  const auto found = header ? link_of_.find(header->from) : link_of_.end();
  if (found == link_of_.end()) {
    drop(header ? "its sender is not a peer" : problem);
    return repost(slot);
  }
  Link& link = *found->second;
  if (link.lost) return repost(slot);
  on_link_packet(link, *header, slot, sink);
}

void FabricTransport::on_link_packet(Link& link, const LinkHeader& header, Slot& slot, PacketSink& sink) {
  if (const std::string_view problem = link.take(header, slot); !problem.empty()) {
    lose(link, error(FLOE_ERR_TRANSPORT, "{}: {} (provider {})", link.who, problem,
                     slot.rail->endpoint().provider()));
    return repost(slot);
  }
  if (header.kind == LinkKind::kCredit) return repost(slot);
  deliver(link, sink);
}

void FabricTransport::deliver(Link& link, PacketSink& sink) {
  while (Slot* const slot = link.next()) {
    LinkHeader head;
    PacketHeader header;
    std::memcpy(&head, slot->data, sizeof head);
    std::memcpy(&header, slot->data + sizeof head, sizeof header);
    if (header.version != PacketHeader::kVersion)
      lose(link, error(FLOE_ERR_MISMATCH, "{} sends packets of version {}, this rank expects {}", link.who,
                       header.version, PacketHeader::kVersion));
    else if (link.references > 0)
      sink.on_packet(header, {slot->data + kHeaderBytes, head.payload});
    repost(*slot);  // before the peer gets its credit back
    ++link.consumed;
    if (link.lost) return;
  }
  if (link.must_report() && !link.credit_due) {
    link.credit_due = true;
    credits_due_.push_back(&link);
  }
}

int FabricTransport::wait_fd() {
  return wait_fds_.valid() ? wait_fds_.get() : rails_.size() == 1 ? rails_[0]->endpoint().wait_fd() : -1;
}

bool FabricTransport::prepare_wait() {
  return losses_.empty() && std::all_of(rails_.begin(), rails_.end(),
                                        [](const auto& rail) { return rail->endpoint().prepare_wait(); });
}

// ---- Failure --------------------------------------------------------------------------------------------

void FabricTransport::drop(std::string_view why) {
  ++dropped_;
  log(LogLevel::kDebug, "fabric: a message is dropped: {}", why);
}

void FabricTransport::lose(Link& link, Status why) {
  if (link.lost) return;
  link.lost = std::move(why);
  losses_.push_back(&link);
}

void FabricTransport::lose_all(const Status& why) {
  for (const auto& link : links_) lose(*link, why.in(link->who));
}

void FabricTransport::report_losses(PacketSink& sink) {
  for (Link* const link : std::exchange(losses_, {})) {
    for (Slot*& early : link->early)
      if (Slot* const slot = std::exchange(early, nullptr)) repost(*slot);
    if (link->references > 0) sink.on_peer_lost(link->peer, *link->lost);
  }
}

}  // namespace floe
