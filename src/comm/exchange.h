// What the ranks of a communicator that is being made tell each other before it works, phase by phase; and
// the way they do it: the store that the caller gave, the parent's messages (split.cpp), or the segments of
// a communicator that has failed (shrink.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "boot/store.h"

namespace floe {

enum class Phase : uint8_t {
  kCard,    // who and where I am: host identity, process, Unix socket, versions, settings, rank 0's key
  kShm,     // whether descriptors of all ranks of my host arrived and their segments hold the right nonce
  kFabric,  // my libfabric address (only if some pair of ranks does not share memory)
  kReady,   // I know all peers: packets may come
};
constexpr int kPhases = 4;
std::string_view phase_name(Phase phase);

// How a rank that can't go on says why, and what is made of it: any text may come from a peer. Nothing if it
// is none that failure_text() makes.
std::string failure_text(const Status& why);
std::optional<Status> parse_failure(std::string_view text);

class Exchange {
 public:
  static constexpr size_t kMaxValue = Store::kMaxValue;

  virtual ~Exchange() = default;

  // Collective, in the order of the phases: every rank's value, by rank. Blocks until the deadline at most.
  virtual Result<std::vector<std::string>> all(Phase phase, const std::string& mine, Deadline deadline) = 0;
  // Not OK once the phases can't all succeed any more: other waits of the wire-up end then, too.
  virtual Status interrupted() { return {}; }
  // Whether nobody but the ranks can say anything here.
  virtual bool among_ranks() const { return true; }
  // This rank can't go on; the others learn it if there is a way.
  virtual void give_up(const Status& why) = 0;
};

// Each rank publishes a value under its number in the store and reads everybody's.
class StoreExchange final : public Exchange {
 public:
  // `store` outlives it. `name` is the communicator's.
  StoreExchange(Store& store, std::string name, uint32_t rank, uint32_t size)
      : store_(store), name_(std::move(name)), rank_(rank), size_(size) {}
  StoreExchange(const StoreExchange&) = delete;
  StoreExchange& operator=(const StoreExchange&) = delete;
  ~StoreExchange() override { remove_keys(); }

  Result<std::vector<std::string>> all(Phase phase, const std::string& mine, Deadline deadline) override;
  bool among_ranks() const override { return false; }
  // A moment later the keys go, in a store that lasts: ranks whose time is up now, too, must not take this
  // one for missing.
  void give_up(const Status& why) override;
  // Once nobody reads this rank's keys any more.
  void remove_keys();

 private:
  std::string key(Phase phase, uint32_t rank) const;
  Status missing(Phase phase, uint32_t first, double waited);

  Store& store_;
  const std::string name_;
  const uint32_t rank_;
  const uint32_t size_;
  const Clock::time_point start_ = Clock::now();
  std::vector<std::string> keys_;  // that this rank has set
};

}  // namespace floe
