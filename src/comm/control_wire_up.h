// The part of a wire-up that gives the ranks of a host their control connections to the other hosts: those
// that they all have from an earlier communicator, or new ones, made by the lowest rank of each host, which
// hands them to the others of its host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "boot/control.h"
#include "boot/control_connect.h"
#include "comm/card.h"
#include "comm/exchange.h"
#include "engine/engine.h"
#include "engine/group.h"

namespace floe {

class ControlWireUp {
 public:
  ControlWireUp(Engine& engine, Exchange* exchange, uint32_t rank)
      : engine_(engine), exchange_(exchange), rank_(rank) {}
  ControlWireUp(const ControlWireUp&) = delete;
  ControlWireUp& operator=(const ControlWireUp&) = delete;

  // For the card: what this rank has.
  std::string ids();
  // What all ranks have said in a phase before connect(): who has read other values is refused.
  void announced(const std::vector<std::string>& texts);
  // After the cards: whether there is anything to do, and whether it is done already.
  Status decide(const std::vector<Card>& cards);

  // For ranks that share memory: what the others of this host write descriptors to, for this rank; invalid if
  // there is nothing to hand over. And what they gave.
  int inbox() const { return given_.get(); }
  void keep(uint32_t rank, UniqueFd outbox) { outboxes_.emplace_back(rank, std::move(outbox)); }

  // The ranks of a host can't share memory after all: each is taken for a host of its own, whatever there is.
  void separate();
  // Once it is known who shares memory. Where this rank can be called; "" if it need not be.
  Result<std::string> listen(const std::vector<Member>& members, const std::string& address);
  // `addresses`: what listen() gave on all ranks. Null if all ranks share memory.
  Result<std::shared_ptr<Control>> connect(const std::vector<Card>& cards,
                                           const std::vector<std::string>& addresses,
                                           const std::vector<Member>& members, Deadline deadline);

 private:
  Result<std::vector<UniqueFd>> call(const std::vector<Card>& cards,
                                     const std::vector<std::string>& addresses, Deadline deadline);
  Status hand_over(const Result<std::vector<UniqueFd>>& connections, const std::vector<Member>& members,
                   Deadline deadline);
  Result<std::vector<UniqueFd>> take_over(const Member& leader, Deadline deadline);

  Engine& engine_;
  Exchange* const exchange_;
  const uint32_t rank_;
  std::vector<std::shared_ptr<Control>> known_;
  std::shared_ptr<Control> common_;
  bool needed_ = false;
  Digest announced_{};
  uint64_t key_ = 0;  // the communicator's
  UniqueFd inbox_, given_;
  std::vector<std::pair<uint32_t, UniqueFd>> outboxes_;  // by rank
  std::vector<uint32_t> leaders_;                        // the lowest rank of each host
  uint32_t self_ = 0;                                    // this host's number
  std::optional<ControlListener> listener_;
};

}  // namespace floe
