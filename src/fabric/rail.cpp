#include "fabric/rail.h"

#include <algorithm>

#include "base/log.h"

namespace floe::fabric {
namespace {

// Receive buffers beside those that peers have credits for: strangers' messages find them.
constexpr size_t kSpareReceives = 16;
// Where few are enough. With all 70 of them posted 4 hosts that share 2 CPUs took 67 ms for an all_reduce of
// 25 MiB by PyTorch's Gloo, and 34 of each rank's CPU; with 8 of them 57 and 28.
constexpr size_t kFewReceives = 8;
constexpr size_t kCreditBytes = 64;  // a LinkHeader, on a cache line of its own
static_assert(sizeof(LinkHeader) <= kCreditBytes);

Result<Rails> open_all(const Libfabric& lib, std::vector<Provider> nics, std::span<const uint16_t> ports) {
  Rails rails;
  for (Provider& nic : nics) {
    auto endpoint = Endpoint::open(lib, std::move(nic), ports);
    if (!endpoint.ok()) return endpoint.status();
    rails.push_back(std::make_unique<Rail>(std::move(*endpoint), rails.size()));
    FLOE_TRY(rails.back()->reserve(0));
  }
  return rails;
}

}  // namespace

Rail::Rail(std::unique_ptr<Endpoint> endpoint, size_t index)
    : index_(index),
      slot_bytes_(slot_bytes(max_payload(endpoint->provider()))),
      receives_(*endpoint, *this, slot_bytes_),
      packets_(*endpoint, *this, Slot::Use::kPacket, slot_bytes_),
      credits_(*endpoint, *this, Slot::Use::kCredit, kCreditBytes),
      endpoint_(std::move(endpoint)) {}

Status Rail::reserve(size_t links) {
  const size_t receives = kSpareReceives + links * kReceivesPerLink;
  // Two for each link, as a socket takes one for each message that it is in the middle of.
  const bool few = endpoint_->waits_for_receives();
  FLOE_TRY(receives_.reserve(receives, few ? std::max(kFewReceives, 2 * links) : receives));
  FLOE_TRY(packets_.reserve(links * kWindow));
  constexpr size_t kCreditsPerRegion = 64;
  return credits_.reserve((links + kCreditsPerRegion - 1) / kCreditsPerRegion * kCreditsPerRegion);
}

ssize_t Rail::send(uint64_t address, Slot& slot, size_t bytes) {
  const ssize_t code = endpoint_->send(address, slot, bytes);
  if (code != 0) return code;
  slot.bytes = bytes;
  ++sends_in_flight_;
  bytes_in_flight_ += bytes;
  return 0;
}

void Rail::ended(Slot& slot) {
  --sends_in_flight_;
  bytes_in_flight_ -= slot.bytes;
  if (slot.use == Slot::Use::kPacket) packets_.give_back(slot);
}

bool Rail::take_back_everything(Deadline deadline) {
  size_t outstanding = receives_.posted() + sends_in_flight_;
  receives_.cancel();
  while (outstanding != 0 && !deadline.passed()) {
    ssize_t code = 0;
    outstanding -= std::min(outstanding, endpoint_->read(&code).size());
    if (code == -FI_EAVAIL && endpoint_->take_error().slot) --outstanding;
  }
  return outstanding == 0;
}

Result<Rails> open_rails(const Libfabric& lib, const FabricOptions& options, uint64_t random) {
  const auto addresses = own_addresses(options);
  if (!addresses.ok()) return addresses.status();
  const std::vector<uint16_t> ports = options.ports.ports(random);
  std::string tried;
  for (const std::string& name : provider_candidates(lib, options.provider)) {
    auto nics = find_nics(lib, name, *addresses, options);
    if (nics.empty()) continue;
    auto rails = open_all(lib, std::move(nics), ports);
    if (rails.ok() || !options.provider.empty()) return rails;
    // Such as a card without a driver, or one that a container may not use.
    log(LogLevel::kInfo, "fabric: provider {} is offered but not used: {}", name, rails.status().message());
    tried += fmt::format("; {}", rails.status().message());
  }
  return no_provider(lib, *addresses, options, tried);
}

}  // namespace floe::fabric
