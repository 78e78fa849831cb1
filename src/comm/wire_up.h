// How the ranks of a new communicator find each other, in the phases of an Exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "boot/unix_exchange.h"
#include "comm/control_wire_up.h"
#include "comm/exchange.h"
#include "engine/engine.h"
#include "engine/group.h"

namespace floe {

struct Card;
struct Spread;

struct WireUpConfig {
  std::string name;
  uint32_t rank = 0;
  uint32_t size = 1;
  uint64_t timeout_ms = 0;
  std::string route_to;                       // host whose route tells the network interface; "" = default
  std::function<void()> all_arrived = [] {};  // called once every rank has been at the store
};

class WireUp {
 public:
  // `exchange` outlives it; null if size is 1.
  WireUp(Engine& engine, const WireUpConfig& config, Exchange* exchange);
  WireUp(const WireUp&) = delete;
  WireUp& operator=(const WireUp&) = delete;

  // All phases but the last: everything about the group.
  Result<GroupConfig> connect();
  // The last phase: call once the group takes packets.
  Status ready();

  const Deadline& deadline() const { return deadline_; }

 private:
  Status exchange_cards(std::vector<Card>* cards);
  // Those that the ranks of this host may use together.
  std::vector<unsigned> cpus_of_host(const std::vector<Card>& cards) const;
  // Of the ranks of this host, on each of these, at most.
  uint32_t ranks_per_cpu_here(const std::vector<Card>& cards) const;
  // Whether no rank has failed to share memory, `mine` being how it went here; and how far the CPUs are from
  // each other, as rank 0 sees it: all must choose alike.
  Result<bool> all_share(const Status& mine, const std::vector<Card>& cards, Spread* spread);
  Result<std::vector<Member>> share_memory(const std::vector<Card>& cards);
  // Whether all ranks, on this host, can have all cores fence. Those that share CPUs sleep often, and a fence
  // of all cores costs more than their own then; and of many that wait for one, each interrupts it (from how
  // many on that tells has not been measured: on 2 CPUs it does not).
  bool may_ring_unfenced(const GroupConfig& group) const;
  Status connect_fabric(const std::vector<Card>& cards, bool one_host, GroupConfig* group);

  Engine& engine_;
  WireUpConfig config_;
  Exchange* exchange_;
  ControlWireUp control_;
  const Result<CostModel> model_;
  Deadline deadline_;
  std::optional<UnixListener> listener_;
  std::shared_ptr<Segment> segment_;
  std::vector<std::shared_ptr<Arena>> arenas_;  // of the ranks of this host that have one
};

}  // namespace floe
