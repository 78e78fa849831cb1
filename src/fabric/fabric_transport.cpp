#include "fabric/fabric_transport.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/address.h"
#include "fabric/buffers.h"
#include "fabric/endpoint.h"
#include "fabric/link.h"
#include "fabric/provider.h"
#include "fabric/receives.h"

namespace floe {

using fabric::Endpoint;
using fabric::EndpointAddress;
using fabric::kHeaderBytes;
using fabric::kReceivesPerLink;
using fabric::kWindow;
using fabric::Link;
using fabric::LinkHeader;
using fabric::LinkKind;
using fabric::Slot;

namespace {

// Receive buffers beside those that peers have credits for: strangers' messages find them.
constexpr size_t kSpareReceives = 16;
// A peer that was connected and can no longer be connected to for this long is lost.
constexpr auto kUnreachable = std::chrono::seconds(6);
constexpr Millis kLinger(50);  // and as long again to take back the receives

// Takes what still arrives while the transport closes.
class Discard final : public PacketSink {
  void on_packet(const PacketHeader&, std::span<const std::byte>) override {}
  void on_peer_lost(PeerId, const Status&) override {}
};

}  // namespace

Result<std::unique_ptr<FabricTransport>> FabricTransport::open(const FabricOptions& options) {
  const fabric::SignalGuard guard;  // providers initialise themselves at the first fi_getinfo
  auto lib = fabric::Libfabric::load();
  if (!lib.ok()) return lib.status();
  auto provider = fabric::choose_provider(*lib, options);
  if (!provider.ok()) return provider.status();
  uint64_t id = 0;
  if (::getrandom(&id, sizeof id, 0) != sizeof id) return system_error("getrandom", errno);
  auto endpoint = Endpoint::open(*lib, std::move(*provider), options.ports.ports(id));
  if (!endpoint.ok()) return endpoint.status();

  std::unique_ptr<FabricTransport> transport(new FabricTransport(std::move(*endpoint), id));
  FLOE_TRY(transport->receives_->reserve(kSpareReceives));
  log(LogLevel::kInfo, "fabric: libfabric {}, provider {}", lib->version(), transport->endpoint_->provider());
  return transport;
}

FabricTransport::FabricTransport(std::unique_ptr<Endpoint> endpoint, uint64_t id)
    : pid_(::getpid()),
      id_(id),
      address_(EndpointAddress{endpoint->lib().version(), endpoint->provider(), endpoint->name_format(),
                               endpoint->name(), id}
                   .to_text()),
      host_address_(endpoint->host_address()),
      name_("fabric " + endpoint->provider()),
      max_payload_(fabric::max_payload(endpoint->provider())),
      receives_(std::make_unique<fabric::Receives>(*endpoint, fabric::slot_bytes(max_payload_))),
      sends_(std::make_unique<fabric::Buffers>(fabric::slot_bytes(max_payload_))),
      endpoint_(std::move(endpoint)) {}

FabricTransport::~FabricTransport() {
  // A forked child shares the sockets: closing the endpoint there would hang the parent.
  if (::getpid() != pid_) {
    leak();
    return;
  }
  drain();
  if (endpoint_->must_be_idle_to_close() && !take_back_everything()) leak();
}

// Unread data makes the kernel reset a closed connection, and then what was sent last might not arrive.
void FabricTransport::drain() {
  Discard sink;
  const Deadline deadline = Deadline::in(kLinger);
  while ((progress(sink) != 0 || !idle()) && !deadline.passed()) continue;
}

bool FabricTransport::take_back_everything() {
  size_t outstanding = receives_->posted() + sends_in_flight_;
  receives_->cancel();
  const Deadline deadline = Deadline::in(kLinger);
  while (outstanding != 0 && !deadline.passed()) {
    ssize_t code = 0;
    outstanding -= std::min(outstanding, endpoint_->read(&code).size());
    if (code == -FI_EAVAIL && endpoint_->take_error().slot) --outstanding;
  }
  return outstanding == 0;
}

void FabricTransport::leak() {
  (void)endpoint_.release();
  (void)receives_.release();
  (void)sends_.release();
  for (auto& link : links_) (void)link.release();
}

// ---- Peers ----------------------------------------------------------------------------------------------

Result<PeerId> FabricTransport::add_peer(const std::string& address, const std::string& who) {
  const auto theirs = EndpointAddress::parse(address);
  if (!theirs.ok()) return theirs.status().in(who);
  const std::string version = endpoint_->lib().version();
  if (theirs->provider != endpoint_->provider() || theirs->libfabric != version)
    return error(
        FLOE_ERR_MISMATCH,
        "{} uses provider {} of libfabric {}, this rank {} of libfabric {}: install one libfabric on all "
        "hosts, and set FLOE_PROVIDER alike",
        who, theirs->provider, theirs->libfabric, endpoint_->provider(), version);
  if (theirs->format != endpoint_->name_format())
    return error(FLOE_ERR_MISMATCH,
                 "{} and this rank have addresses of different families (libfabric's formats {} and {}): set "
                 "FLOE_IFNAME to interfaces that both have IPv4, or both only IPv6",
                 who, theirs->format, endpoint_->name_format());
  if (theirs->id == id_) return error(FLOE_ERR_ARGUMENT, "{} is this endpoint itself", who);
  if (const auto known = link_of_.find(theirs->id); known != link_of_.end()) {
    Link& link = *known->second;
    if (link.lost) return link.lost->in("the connection failed earlier");
    link.who = who;
    ++link.references;
    return link.peer;
  }
  const auto inserted = endpoint_->insert(theirs->name);
  if (!inserted.ok()) return inserted.status().in(who);
  FLOE_TRY(receives_->reserve(kSpareReceives + (links_.size() + 1) * kReceivesPerLink));
  FLOE_TRY(sends_->grow(kWindow, Slot::Use::kPacket));
  auto link = std::make_unique<Link>();
  link->peer = static_cast<PeerId>(links_.size());
  link->id = theirs->id;
  link->address = *inserted;
  link->who = who;
  link->references = 1;
  link->credit.use = Slot::Use::kCredit;
  link->credit.link = link.get();
  link_of_.emplace(link->id, link.get());
  links_.push_back(std::move(link));
  return links_.back()->peer;
}

bool FabricTransport::is_loopback(const std::string& address) {
  const auto parsed = EndpointAddress::parse(address);
  return parsed.ok() && parsed->is_loopback();
}

void FabricTransport::remove_peer(PeerId peer) {
  if (links_[peer]->references > 0) --links_[peer]->references;
}

void FabricTransport::repost(Slot& slot) {
  if (const Status posted = receives_->repost(slot); !posted.ok()) lose_all(posted);
}

// ---- Sending --------------------------------------------------------------------------------------------

bool FabricTransport::try_send(PeerId peer, const PacketHeader& header, std::span<const std::byte> payload) {
  Link& link = *links_[peer];
  if (payload.size() > max_payload_ && !link.lost)
    lose(link, error(FLOE_ERR_INTERNAL, "a packet of {} bytes to {}", payload.size(), link.who));
  if (link.lost) return true;
  if (!link.has_credit()) return false;
  Slot* const slot = sends_->take();
  if (!slot) return false;
  LinkHeader head = link.make_header(LinkKind::kPacket, id_);
  head.payload = static_cast<uint32_t>(payload.size());
  std::memcpy(slot->data, &head, sizeof head);
  std::memcpy(slot->data + sizeof head, &header, sizeof header);
  if (!payload.empty()) std::memcpy(slot->data + kHeaderBytes, payload.data(), payload.size());
  slot->link = &link;
  if (send_slot(link, *slot, kHeaderBytes + payload.size())) {
    ++link.sent;
    link.reported = head.consumed;
    return true;
  }
  sends_->give_back(*slot);
  return link.lost.has_value();
}

bool FabricTransport::send_slot(Link& link, Slot& slot, size_t bytes) {
  const void* const data =
      slot.use == Slot::Use::kCredit ? static_cast<void*>(&link.credit_message) : slot.data;
  const ssize_t code = endpoint_->send(link.address, slot, data, bytes);
  if (code == 0) {
    link.refused_since.reset();
    ++sends_in_flight_;
    return true;
  }
  if (code == -FI_EAGAIN)
    refused(link);
  else
    lose(link, error(FLOE_ERR_PEER, "{} cannot be reached: provider {}: {}", link.who, endpoint_->provider(),
                     endpoint_->lib().error_text(static_cast<int>(code))));
  return false;
}

// Connections are made at the first send, which is refused until the peer has answered. Later refusals mean
// that the connection is gone, and providers try again for ever.
void FabricTransport::refused(Link& link) {
  if (link.sent == 0 || !endpoint_->refuses_only_unconnected()) return;
  const auto now = Clock::now();
  if (!link.refused_since) link.refused_since = now;
  if (now - *link.refused_since > kUnreachable)
    lose(link,
         error(FLOE_ERR_PEER, "{}: its connection is gone and cannot be made again for {} s (provider {})",
               link.who, kUnreachable.count(), endpoint_->provider()));
}

void FabricTransport::send_credits() {
  auto due = std::exchange(credits_due_, {});
  for (Link* const link : due) {
    link->credit_due = false;
    if (link->lost || !link->must_report()) continue;
    if (!link->credit_in_flight) {
      link->credit_message = link->make_header(LinkKind::kCredit, id_);
      if (send_slot(*link, link->credit, sizeof(LinkHeader))) {
        link->credit_in_flight = true;
        link->reported = link->credit_message.consumed;
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
  if (const Status posted = receives_->post(); !posted.ok()) lose_all(posted);
  read_completions(sink, &events);
  if (!credits_due_.empty()) send_credits();
  if (!losses_.empty()) report_losses(sink);
  return events;
}

void FabricTransport::read_completions(PacketSink& sink, int* events) {
  constexpr int kBatches = 4;  // then the caller's other work gets its turn
  // What a lost peer sent before is handed over first; no more than this can be left of it.
  constexpr int kBatchesAfterLoss = 64;
  for (int batch = 0; batch < (losses_.empty() ? kBatches : kBatchesAfterLoss); ++batch) {
    ssize_t code = 0;
    const auto completions = endpoint_->read(&code);
    if (code == -FI_EAGAIN) return;
    if (code == -FI_EAVAIL) {
      on_failed_completion();
      ++*events;
      continue;
    }
    if (code < 0) return lose_all(endpoint_->failed("fi_cq_read", static_cast<int>(code)));
    if (completions.empty()) return;
    *events += static_cast<int>(completions.size());
    for (const fi_cq_msg_entry& entry : completions)
      on_completion(Slot::of(entry.op_context), entry.len, sink);
  }
}

void FabricTransport::on_completion(Slot& slot, size_t bytes, PacketSink& sink) {
  switch (slot.use) {
    case Slot::Use::kReceive: on_message(slot, bytes, sink); return;
    case Slot::Use::kPacket: sends_->give_back(slot); break;
    case Slot::Use::kCredit: slot.link->credit_in_flight = false; break;
  }
  --sends_in_flight_;
}

void FabricTransport::on_failed_completion() {
  const Endpoint::Failure failure = endpoint_->take_error();
  if (!failure.slot) return drop(failure.text);
  Slot& slot = *failure.slot;
  if (slot.use == Slot::Use::kReceive) {
    drop(failure.text);
    return repost(slot);
  }
  lose(*slot.link, error(FLOE_ERR_PEER, "{}: sending to it failed: provider {}: {}", slot.link->who,
                         endpoint_->provider(), failure.text));
  if (slot.use == Slot::Use::kCredit)
    slot.link->credit_in_flight = false;
  else
    sends_->give_back(slot);
  --sends_in_flight_;
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
    lose(link, error(FLOE_ERR_TRANSPORT, "{}: {} (provider {})", link.who, problem, endpoint_->provider()));
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

int FabricTransport::wait_fd() { return endpoint_->wait_fd(); }

bool FabricTransport::prepare_wait() { return losses_.empty() && endpoint_->prepare_wait(); }

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
