// The transport's peers: whose addresses are believed, and what each link needs.
#include "fabric/address.h"
#include "fabric/fabric_transport.h"
#include "fabric/link.h"
#include "fabric/rail.h"

namespace floe {

using fabric::Endpoint;
using fabric::EndpointAddress;
using fabric::Link;

Result<PeerId> FabricTransport::add_peer(const std::string& address, const std::string& who) {
  const auto theirs = EndpointAddress::parse(address);
  if (!theirs.ok()) return theirs.status().in(who);
  const Endpoint& ours = rails_[0]->endpoint();
  const std::string version = ours.lib().version();
  if (theirs->provider != ours.provider() || theirs->libfabric != version)
    return error(
        FLOE_ERR_MISMATCH,
        "{} uses provider {} of libfabric {}, this rank {} of libfabric {}: install one libfabric on all "
        "hosts, and set FLOE_PROVIDER alike",
        who, theirs->provider, theirs->libfabric, ours.provider(), version);
  if (theirs->format != ours.name_format())
    return error(FLOE_ERR_MISMATCH,
                 "{} and this rank have addresses of different families (libfabric's formats {} and {}): set "
                 "FLOE_IFNAME to interfaces that both have IPv4, or both only IPv6",
                 who, theirs->format, ours.name_format());
  if (theirs->names.size() != rails_.size())
    return error(FLOE_ERR_MISMATCH, "{} has {} rails, this rank {}: set FLOE_RAILS alike on all ranks", who,
                 theirs->names.size(), rails_.size());
  if (theirs->id == id_) return error(FLOE_ERR_ARGUMENT, "{} is this endpoint itself", who);
  if (const auto known = link_of_.find(theirs->id); known != link_of_.end()) {
    Link& link = *known->second;
    if (link.lost) return link.lost->in("the connection failed earlier");
    link.who = who;
    ++link.references;
    return link.peer;
  }
  auto link = std::make_unique<Link>();
  for (size_t i = 0; i < rails_.size(); ++i) {
    const auto inserted = rails_[i]->endpoint().insert(theirs->names[i]);
    if (!inserted.ok()) return inserted.status().in(who);
    link->ways.emplace_back().address = *inserted;
    FLOE_TRY(rails_[i]->reserve(links_.size() + 1));
  }
  link->peer = static_cast<PeerId>(links_.size());
  link->id = theirs->id;
  link->who = who;
  link->references = 1;
  link->credit = rails_[0]->take_credit();
  link->credit->link = link.get();
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

}  // namespace floe
