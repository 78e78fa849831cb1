#include "comm/wire_up.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/log.h"
#include "boot/host.h"
#include "boot/random.h"
#include "comm/card.h"
#include "topo/spread.h"
#include "topo/topology.h"

namespace floe {

namespace {

// Of its last-level cache, what this rank has to itself; all of it where not all ranks share one.
uint64_t cache_bytes(const Surroundings& where) {
  const auto machine = topology();
  if (!machine.ok() || machine->l3_bytes == 0) return UINT64_MAX;
  return where.one_cache ? machine->l3_bytes / where.ranks : machine->l3_bytes;
}

// All ranks find the same, so nobody waits for one that has failed.
Status check_reachable(const std::vector<Card>& cards, const std::vector<std::string>& addresses) {
  for (uint32_t rank = 0; rank < cards.size(); ++rank) {
    if (!FabricTransport::is_loopback(addresses[rank])) continue;
    for (uint32_t other = 0; other < cards.size(); ++other)
      if (in_different_networks(cards[rank].host, cards[other].host))
        return error(FLOE_ERR_ENVIRONMENT,
                     "{} listens on loopback, where {} does not reach it: on host {} set FLOE_IFNAME to the "
                     "interface that leads to host {}",
                     cards[rank].who(rank), cards[other].who(other), cards[rank].hostname,
                     cards[other].hostname);
  }
  return {};
}

}  // namespace

WireUp::WireUp(Engine& engine, const WireUpConfig& config, Exchange* exchange)
    : engine_(engine),
      config_(config),
      exchange_(exchange),
      control_(engine, exchange, config.rank),
      model_(CostModel::create(engine.settings().cost_model)),
      deadline_(Deadline::in_ms(config.timeout_ms)) {}

Status WireUp::exchange_cards(std::vector<Card>* cards) {
  auto listener = UnixListener::create(config_.size);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);

  const HostIdentity host = host_identity();
  FLOE_TRY(model_.status());
  Card mine{floe_version(),
            config_.size,
            random_u64(),
            random_u64(),
            host.id,
            host.hostname,
            ::getpid(),
            listener_->socket_name(),
            listener_->token(),
            engine_.settings().shm ? "on" : "off",
            engine_.settings().provider,
            format_cpu_list(allowed_cpus()),
            model_->text(),
            engine_.id(),
            engine_.settings().secret.empty() ? "not set" : "set",
            control_.ids(),
            engine_.settings().wire_type == FLOE_BFLOAT16 ? "bf16" : "fp32"};
  const auto texts = exchange_->all(Phase::kCard, mine.encode(), deadline_);
  if (!texts.ok()) return texts.status();
  control_.announced(*texts);
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    auto card = Card::decode((*texts)[rank], rank);
    if (!card.ok()) return card.status();
    const auto differs = [&](std::string_view what, const auto& theirs, const auto& ours) {
      return error(FLOE_ERR_MISMATCH, "{} has {} '{}', {} has '{}': it must be the same on all ranks",
                   card->who(rank), what, theirs, mine.who(config_.rank), ours);
    };
    if (card->version != mine.version) return differs("floe version", card->version, mine.version);
    if (card->size != mine.size) return differs("size", card->size, mine.size);
    if (card->shm != mine.shm) return differs("FLOE_SHM", card->shm, mine.shm);
    if (card->provider != mine.provider) return differs("FLOE_PROVIDER", card->provider, mine.provider);
    if (card->costs != mine.costs) return differs("cost model (FLOE_COST_MODEL)", card->costs, mine.costs);
    if (card->wire != mine.wire) return differs("FLOE_WIRE_DTYPE", card->wire, mine.wire);
    if (card->secret != mine.secret) return differs("FLOE_SECRET", card->secret, mine.secret);
    cards->push_back(std::move(*card));
  }
  return control_.decide(*cards);
}

// Members with what ranks of one host share; others have only a name.
Result<std::vector<Member>> WireUp::share_memory(const std::vector<Card>& cards) {
  std::vector<Member> members(config_.size);
  std::vector<LocalRank> local;
  std::unordered_map<std::string_view, uint32_t> first_of;  // by host
  size_t self = 0;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    members[rank].who = cards[rank].who(rank);
    members[rank].engine = cards[rank].engine;
    members[rank].host = first_of.try_emplace(cards[rank].host, rank).first->second;
    if (cards[rank].host != cards[config_.rank].host) continue;
    if (rank == config_.rank) self = local.size();
    local.push_back({rank, cards[rank].pid, cards[rank].socket, cards[rank].token});
  }
  if (local.size() == 1) return members;

  auto segment = Segment::create(static_cast<uint32_t>(local.size()), static_cast<uint32_t>(self),
                                 cards[config_.rank].nonce);
  if (!segment.ok()) return segment.status();
  // All give as many: a rank without an arena says so in its segment.
  const auto& arena = engine_.arena();
  if (arena.ok()) {
    (*segment)->header().arena = (*arena)->id();
    (*segment)->header().arena_bytes = (*arena)->bytes();
  }
  std::vector<int> give = {(*segment)->fd(), engine_.bell().page_fd(), engine_.bell().event_fd(),
                           arena.ok() ? (*arena)->fd() : (*segment)->fd()};
  if (control_.inbox() >= 0) give.push_back(control_.inbox());
  // Everybody is here already. If one can't share, the others must learn it in time to do without.
  const Deadline soon = deadline_.earlier(Deadline::in_ms(config_.timeout_ms / 2));
  auto received =
      exchange_fds(*listener_, local, self, give, soon, [this] { return exchange_->interrupted(); });
  if (!received.ok()) return received.status();
  for (size_t i = 0; i < local.size(); ++i) {
    Member& member = members[local[i].rank];
    if (i == self) {
      member.segment = *segment;
      if (arena.ok()) arenas_.push_back(*arena);
      continue;
    }
    auto& fds = (*received)[i].fds;
    auto theirs = Segment::attach(std::move(fds[0]), static_cast<uint32_t>(local.size()),
                                  static_cast<uint32_t>(i), cards[local[i].rank].nonce);
    if (!theirs.ok()) return theirs.status().in(member.who);
    member.segment = std::move(*theirs);
    auto bell = Bell::attach(std::move(fds[1]), std::move(fds[2]));
    if (!bell.ok()) return bell.status().in(member.who);
    member.bell = std::move(*bell);
    if (const SegmentHeader& header = member.segment->header(); header.arena != 0) {
      auto shared = Arena::attach(std::move(fds[3]), header.arena, header.arena_bytes);
      if (!shared.ok()) return shared.status().in(member.who);
      arenas_.push_back(std::move(*shared));
    }
    if (control_.inbox() >= 0) control_.keep(local[i].rank, std::move(fds[4]));
    member.pidfd = std::move((*received)[i].pidfd);
  }
  segment_ = std::move(*segment);
  return members;
}

Status WireUp::connect_fabric(const std::vector<Card>& cards, bool one_host, GroupConfig* group) {
  FabricTransport* fabric = nullptr;
  {
    const std::lock_guard guard(engine_.lock());
    auto opened = engine_.fabric({engine_.settings().provider, engine_.settings().interface, config_.route_to,
                                  one_host, engine_.settings().port_range, engine_.settings().rails,
                                  engine_.settings().always_registers});
    if (!opened.ok()) return opened.status();
    fabric = *opened;
  }
  const auto listening = control_.listen(group->members, fabric->host_address());
  if (!listening.ok()) return listening.status();
  // Two lines: libfabric's address, and where the host can be called.
  const auto values = exchange_->all(Phase::kFabric, fabric->address() + '\n' + *listening, deadline_);
  if (!values.ok()) return values.status();
  control_.announced(*values);
  std::vector<std::string> addresses(config_.size), callable(config_.size);
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    const std::string& value = (*values)[rank];
    const size_t end = std::min(value.find('\n'), value.size());
    addresses[rank] = value.substr(0, end);
    callable[rank] = value.substr(std::min(end + 1, value.size()));
  }
  FLOE_TRY(check_reachable(cards, addresses));
  {
    const std::lock_guard guard(engine_.lock());
    for (uint32_t rank = 0; rank < config_.size; ++rank) {
      Member& member = group->members[rank];
      if (rank == config_.rank || member.route.transport) continue;
      const auto peer = fabric->add_peer(addresses[rank], cards[rank].who(rank));
      if (!peer.ok()) return peer.status().in(cards[rank].who(rank));
      member.route = {fabric, *peer};
    }
  }
  auto control = control_.connect(cards, callable, group->members, deadline_);
  if (!control.ok()) return control.status();
  group->control = std::move(*control);
  return {};
}

std::vector<unsigned> WireUp::cpus_of_host(const std::vector<Card>& cards) const {
  std::set<unsigned> cpus;
  for (const Card& card : cards) {
    if (card.host != cards[config_.rank].host) continue;
    const auto list = parse_cpu_list(card.cpus);
    if (list.ok()) cpus.insert(list->begin(), list->end());
  }
  return {cpus.begin(), cpus.end()};
}

uint32_t WireUp::ranks_per_cpu_here(const std::vector<Card>& cards) const {
  const auto here = [&](const Card& card) { return card.host == cards[config_.rank].host; };
  const auto ranks = std::count_if(cards.begin(), cards.end(), here);
  return ranks_per_cpu(static_cast<uint32_t>(ranks), cpus_of_host(cards).size());
}

Result<bool> WireUp::all_share(const Status& mine, const std::vector<Card>& cards, Spread* spread) {
  constexpr std::string_view kFine = "ok ";
  std::string text = mine.ok() ? std::string(kFine) : mine.message();
  if (mine.ok() && config_.rank == 0) text += spread_of(cpus_of_host(cards)).encode();
  const auto texts = exchange_->all(Phase::kShm, text, deadline_);
  if (!texts.ok()) return texts.status();
  control_.announced(*texts);
  bool shared = true;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    if ((*texts)[rank].starts_with(kFine)) continue;
    log(LogLevel::kWarn, "'{}' does without shared memory: {}: {}", config_.name, cards[rank].who(rank),
        (*texts)[rank]);
    shared = false;
  }
  if (!shared) return false;
  const auto found = Spread::decode(std::string_view((*texts)[0]).substr(kFine.size()));
  if (!found.ok()) return found.status().in(cards[0].who(0));
  *spread = *found;
  return true;
}

bool WireUp::may_ring_unfenced(const GroupConfig& group) const {
  constexpr uint32_t kMost = 16;
  return config_.size <= kMost && engine_.bell().fences_all() &&
         std::all_of(group.members.begin(), group.members.end(),
                     [](const Member& member) { return !member.bell || member.bell->fences_all(); });
}

Result<GroupConfig> WireUp::connect() {
  GroupConfig group;
  group.name = config_.name;
  group.rank = config_.rank;
  group.timeout_ms = config_.timeout_ms;
  if (config_.size == 1) {
    group.members.resize(1);
    group.members[0].who = "rank 0";
    group.key = random_u64();
    return group;
  }
  std::vector<Card> cards;
  FLOE_TRY(exchange_cards(&cards));
  group.key = cards[0].key;
  group.ranks_per_cpu = ranks_per_cpu_here(cards);

  auto members = share_memory(cards);
  listener_.reset();
  Spread spread;
  const auto shared = all_share(members.ok() ? Status() : members.status(), cards, &spread);
  if (!shared.ok()) return shared.status();
  if (members.ok()) group.members = std::move(*members);
  if (segment_) segment_->close_fd();
  if (!*shared) {
    control_.separate();
    group.members.clear();
    group.members.resize(config_.size);
    for (uint32_t rank = 0; rank < config_.size; ++rank) {
      group.members[rank].who = cards[rank].who(rank);
      group.members[rank].host = rank;
      group.members[rank].engine = cards[rank].engine;
    }
  }

  const bool one_host =
      std::all_of(cards.begin(), cards.end(), [&](const Card& card) { return card.host == cards[0].host; });
  if (*shared && engine_.settings().shm) {
    std::vector<std::shared_ptr<Segment>> segments;
    uint32_t self = 0;
    for (Member& member : group.members) {
      if (!member.segment) continue;
      if (&member == &group.members[config_.rank]) self = static_cast<uint32_t>(segments.size());
      segments.push_back(member.segment);
    }
    if (segments.size() > 1) {
      group.shm = std::make_unique<ShmTransport>(segments, self);
      PeerId local = 0;
      for (Member& member : group.members)
        if (member.segment) member.route = {group.shm.get(), local++};
    }
    if (arenas_.size() != segments.size()) arenas_.clear();
    if (one_host) {
      const Surroundings where{config_.size, group.ranks_per_cpu, spread.one_cache, spread.memory_percent};
      group.direct = std::make_unique<DirectPath>(segments, self, Choices(*model_, where), std::move(arenas_),
                                                  cache_bytes(where));
      group.rings_unfenced = may_ring_unfenced(group);
    }
  }
  if (!group.direct) FLOE_TRY(connect_fabric(cards, one_host, &group));
  return group;
}

Status WireUp::ready() {
  const auto all = exchange_->all(Phase::kReady, "ok", deadline_);
  if (!all.ok()) return all.status();
  config_.all_arrived();
  return {};
}

}  // namespace floe
