#include "comm/exchange.h"

#include <array>
#include <charconv>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"

namespace floe {

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, kPhases> names = {"card", "shm", "fabric", "ready"};
  return names[static_cast<size_t>(phase)];
}

std::string failure_text(const Status& why) {
  constexpr size_t kMostText = 1024;
  return fmt::format("{} {}", static_cast<int>(why.code()), why.message().substr(0, kMostText));
}

std::optional<Status> parse_failure(std::string_view text) {
  int code = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), code);
  if (problem != std::errc() || code <= FLOE_IN_PROGRESS || code > FLOE_ERR_INTERNAL) return {};
  const auto rest = static_cast<size_t>(end - text.data());
  if (rest == text.size() || text[rest] != ' ') return {};
  return Status(static_cast<floe_status_t>(code), std::string(text.substr(rest + 1)));
}

std::string StoreExchange::key(Phase phase, uint32_t rank) const {
  return fmt::format("floe/{}/{}/{}", name_, phase_name(phase), rank);
}

void StoreExchange::remove_keys() {
  for (const std::string& name : keys_) {
    const Status removed = store_.remove(name);
    if (!removed.ok()) log(LogLevel::kDebug, "removing store key {}: {}", name, removed.message());
  }
  keys_.clear();
}

void StoreExchange::give_up(const Status&) {
  if (!store_.lasts()) keys_.clear();
  if (keys_.empty()) return;
  constexpr Millis kLinger(500);
  std::this_thread::sleep_for(kLinger);
  remove_keys();
}

Status StoreExchange::missing(Phase phase, uint32_t first, double waited) {
  // As long as others that give up leave their keys there: see give_up().
  constexpr Millis kGlance(50), kLongest(500);
  const Deadline enough = Deadline::in(kLongest);
  std::string list = std::to_string(first);
  uint32_t count = 1, rank = first + 1;
  for (; rank < size_ && !enough.passed(); ++rank) {
    if (store_.get(key(phase, rank), enough.earlier(Deadline::in(kGlance))).ok()) continue;
    list += fmt::format(", {}", rank);
    ++count;
  }
  return error(
      FLOE_ERR_STORE,
      "(Timed out) {} {}{} of {} did not arrive within {:.1f} s (phase {}); check that every rank was "
      "started, is alive, and uses the same store and size",
      count == 1 ? "rank" : "ranks", list, rank == size_ ? "" : " and perhaps more", size_, waited,
      phase_name(phase));
}

Result<std::vector<std::string>> StoreExchange::all(Phase phase, const std::string& mine, Deadline deadline) {
  const std::string own = key(phase, rank_);
  FLOE_TRY(store_.set(own, mine));
  keys_.push_back(own);
  std::vector<std::string> values(size_);
  for (uint32_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) {
      values[rank] = mine;
      continue;
    }
    auto value = store_.get(key(phase, rank), deadline);
    if (!value.ok() && value.status().code() == FLOE_ERR_TIMEOUT)
      return missing(phase, rank, seconds_since(start_));
    if (!value.ok()) return value.status();
    values[rank] = std::move(*value);
  }
  return values;
}

}  // namespace floe
