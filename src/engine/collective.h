// Collectives as the engine runs them: a direct one on shared memory, or a schedule of messages.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/local_step.h"
#include "engine/messenger.h"
#include "engine/operation.h"
#include "engine/schedule.h"
#include "shm/direct.h"

namespace floe {

class Collective : public Operation {
 public:
  using Operation::Operation;
  // Does what can be done now. Called only while this is the oldest collective of its communicator.
  virtual Poll step(Messenger& messenger) = 0;
  // After kMismatch: the rank that disagrees.
  virtual uint32_t mismatch_with() const { return 0; }
  // Makes sure that `peer`, which does not end a write to this rank's buffers, changes nothing any more.
  virtual Status fence(uint32_t /*peer*/) const { return {}; }
};

class DirectCollective final : public Collective {
 public:
  DirectCollective(const Descriptor& descriptor, const DirectOperation& op)
      : Collective(descriptor), op_(op) {}

  Poll step(Messenger&) override { return op_.poll(); }
  bool waits_for(uint32_t rank) const override { return op_.waits_for(rank); }
  uint32_t mismatch_with() const override { return op_.mismatch_with(); }
  Status fence(uint32_t peer) const override { return op_.fence(peer); }

 private:
  DirectOperation op_;
};

// Runs a schedule: a step starts once all that it needs have ended.
class ScheduledCollective final : public Collective, private TransferOwner {
 public:
  // `ranks` divides the sum of FLOE_AVG. Buffers are the caller's; scratch is the schedule's own. `direct`,
  // if all ranks share memory, makes sure that all of them call the same.
  ScheduledCollective(const Descriptor& descriptor, Schedule schedule, const void* send, void* recv,
                      uint32_t ranks, DirectPath* direct);

  // Of kPremulSum, before the start: where in scratch the schedule gathers the ranks' factors, and `rank`'s.
  void set_factor(uint64_t at, uint32_t rank, double factor);

  Poll step(Messenger& messenger) override;
  bool waits_for(uint32_t rank) const override;
  uint32_t mismatch_with() const override { return mismatch_with_; }

 private:
  void on_message(Transfer& receive, std::span<const std::byte> payload, CopyIn& copy_in) override;
  void on_transfer(Transfer& transfer) override;
  Poll agree();
  void start_ready();
  void start(StepId id);
  void end(StepId id);

  Schedule schedule_;
  std::unique_ptr<std::byte[]> scratch_;
  Buffers buffers_;
  Arithmetic arithmetic_;                  // its factors are in scratch_
  std::vector<Transfer> transfers_;        // by step
  std::vector<uint32_t> missing_;          // by step: how many of its needs have not ended
  std::vector<std::vector<StepId>> then_;  // by step: who needs it
  // Steps in the order in which they became ready, at first that of the schedule, which is the one it means;
  // the first `started_` have started.
  std::vector<StepId> ready_;
  size_t started_ = 0;
  bool starting_ = false;
  Messenger* messenger_ = nullptr;  // from the first step() on
  std::vector<bool> under_way_;
  size_t ended_ = 0;
  DirectPath* direct_;
  uint32_t hash_;
  bool entered_ = false;
  uint32_t agreed_ = 0;  // ranks below this one have entered the same
  uint32_t mismatch_with_ = 0;
};

}  // namespace floe
