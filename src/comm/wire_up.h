// How the ranks of a new communicator find each other. In phases; each rank publishes a value under its
// number in the store and reads everybody's:
//
//   card    who and where I am: host identity, process, Unix socket, versions, settings, rank 0's key
//   shm     whether descriptors of all ranks of my host arrived and their segments hold the right nonce
//   fabric  my libfabric address (only if some pair of ranks does not share memory)
//   ready   I know all peers: packets may come
//
// then two barriers over floe itself, between which the keys are removed: so a name may be used again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "boot/store.h"
#include "boot/unix_exchange.h"
#include "engine/engine.h"
#include "engine/group.h"

namespace floe {

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
  // `store` outlives it; null if size is 1.
  WireUp(Engine& engine, const WireUpConfig& config, Store* store);
  ~WireUp();  // after a failure: removes this rank's keys, a moment later
  WireUp(const WireUp&) = delete;
  WireUp& operator=(const WireUp&) = delete;

  // Phases card, shm and fabric: everything about the group.
  Result<GroupConfig> connect();
  // Phase ready: call once the group takes packets.
  Status ready();
  // Between the two barriers.
  void remove_keys();

  const Deadline& deadline() const { return deadline_; }

 private:
  struct Card;

  Result<std::vector<std::string>> exchange(const std::string& phase, const std::string& mine);
  Status missing(const std::string& phase, uint32_t first);
  std::string key(const std::string& phase, uint32_t rank) const;
  Status exchange_cards(std::vector<Card>* cards);
  // Whether the ranks of this host are more than the CPUs that they may use together.
  bool oversubscribed(const std::vector<Card>& cards) const;
  Result<std::vector<Member>> share_memory(const std::vector<Card>& cards);
  Status connect_fabric(const std::vector<Card>& cards, bool one_host, std::vector<Member>* members);

  Engine& engine_;
  WireUpConfig config_;
  Store* store_;
  Deadline deadline_;
  std::optional<UnixListener> listener_;
  std::shared_ptr<Segment> segment_;
  std::vector<std::string> keys_;  // that this rank has set
};

}  // namespace floe
