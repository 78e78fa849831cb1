// A barrier that says which ranks are missing. It goes over the store: there a rank that does not come leaves
// nothing behind that would wait for it, so the group remains usable.
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backend.h"
#include "exit_gate.h"

namespace floe_torch {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr const char* kPassed = "passed";

// One barrier's keys, and its time.
class Round {
 public:
  Round(c10::intrusive_ptr<c10d::Store> store, uint64_t number, Milliseconds timeout)
      : store_(std::move(store)),
        prefix_("floe/monitored_barrier/" + std::to_string(number) + "/"),
        timeout_(timeout) {}

  std::string key(const char* what, int rank) const { return prefix_ + what + std::to_string(rank); }
  void set(const std::string& key, const std::string& value) { store_->set(key, value); }

  Milliseconds left() const { return std::chrono::ceil<Milliseconds>(deadline_ - Clock::now()); }
  // The value, which is removed; none when the time is up.
  std::optional<std::string> take(const std::string& key) {
    // To the store's wait, 0 means for ever.
    if (left() <= Milliseconds::zero() && !store_->check({key})) return std::nullopt;
    const auto start = Clock::now();
    const auto limit = std::max(left(), Milliseconds(1));
    try {
      store_->wait({key}, limit);
    } catch (const std::exception&) {
      // Stores report an expired wait with different exceptions; the clock tells it from the rest.
      if (Clock::now() - start < limit * 9 / 10) throw;
      return std::nullopt;
    }
    const auto value = store_->get_to_str(key);
    store_->deleteKey(key);
    return value;
  }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string prefix_;
  const Milliseconds timeout_;
  const Clock::time_point deadline_ = Clock::now() + timeout_;
};

std::string joined(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

// On rank 0: what is wrong, or nothing. Scripts look for the words, which are Gloo's.
std::string await_others(Round& round, int size, Milliseconds timeout, bool wait_all_ranks) {
  const std::string in_time = " in " + std::to_string(timeout.count()) + " ms";
  std::vector<int> arrived, missing;
  for (int rank = 1; rank < size; ++rank) {
    if (!wait_all_ranks && round.left() <= Milliseconds::zero())
      return c10::str("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms. ",
                      arrived.empty() ? "No ranks successfully processed in monitoredBarrier."
                                      : "Successfully processed ranks: " + joined(arrived));
    const bool here = round.take(round.key("arrived/", rank)).has_value();
    (here ? arrived : missing).push_back(rank);
    if (!here && !wait_all_ranks) return c10::str("Rank ", rank, " failed to pass monitoredBarrier", in_time);
  }
  if (missing.empty()) return "";
  return c10::str(missing.size() == 1 ? "Rank " : "Ranks ", joined(missing),
                  " failed to pass monitoredBarrier", in_time);
}

}  // namespace

void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const ExitGate gate;
  const Milliseconds timeout = opts.timeout == c10d::kUnsetTimeout ? options_->timeout : opts.timeout;
  Round round(own_store(), monitored_++, timeout);
  if (rank_ == 0) {
    const std::string problem = await_others(round, size_, timeout, wait_all_ranks);
    // A rank that comes late finds it.
    for (int rank = 1; rank < size_; ++rank)
      round.set(round.key("answer/", rank), problem.empty() ? kPassed : problem);
    TORCH_CHECK(problem.empty(), "[Rank 0]: ", problem);
    return;
  }
  round.set(round.key("arrived/", rank_), kPassed);
  const auto answer = round.take(round.key("answer/", rank_));
  TORCH_CHECK(
      answer == kPassed, "Rank ", rank_,
      " successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
      "rank 0. Please check rank 0 logs for faulty rank. ",
      answer ? "Rank 0 says: " + *answer : c10::str("Rank 0 has not answered in ", timeout.count(), " ms"));
}

}  // namespace floe_torch
