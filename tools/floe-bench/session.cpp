#include "session.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "topo/topology.h"

namespace floe::bench {
namespace {

constexpr uint64_t kTimeoutMs = 200'000;  // longer than the peer may take: see PeerContender

Status check(floe_status_t status) {
  if (status == FLOE_OK) return {};
  return {status, floe_last_error()};
}

}  // namespace

Session::~Session() {
  if (comm_) floe_comm_destroy(comm_);
  if (context_) floe_context_destroy(context_);
}

Status Session::join(const std::string& name) {
  FLOE_TRY(check(floe_context_create(nullptr, &context_)));
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.name = name.c_str();
  config.timeout_ms = kTimeoutMs;
  FLOE_TRY(check(floe_comm_create_from_env(context_, &config, &comm_)));
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  FLOE_TRY(check(floe_comm_info(comm_, &info)));
  rank_ = info.rank;
  ranks_ = info.size;
  one_host_ = info.local_size == ranks_;
  return find_cpus();
}

// Pinned ranks are probed where they are; otherwise any two CPUs are.
Status Session::find_cpus() {
  my_cpus_ = allowed_cpus();
  const int64_t mine = my_cpus_.size() == 1 ? int64_t{my_cpus_[0]} : -1;
  cpus_.resize(ranks_);
  FLOE_TRY(check(floe_all_gather(comm_, &mine, cpus_.data(), 1, FLOE_INT64, nullptr)));
  if (one_host_ && ranks_ > 1 && cpus_[0] >= 0 && cpus_[1] >= 0)
    probed_ = {static_cast<unsigned>(cpus_[0]), static_cast<unsigned>(cpus_[1])};
  else if (my_cpus_.size() > 1)
    probed_ = {my_cpus_[0], my_cpus_[1]};
  return {};
}

std::string Session::who() const { return comm_ ? std::to_string(rank_) : "?"; }

bool Session::pinned() const { return std::find(cpus_.begin(), cpus_.end(), -1) == cpus_.end(); }

size_t Session::cpus() const {
  return pinned() ? std::set<int64_t>(cpus_.begin(), cpus_.end()).size() : my_cpus_.size();
}

std::string Session::describe_cpus() const {
  if (!pinned()) return "not pinned";
  return fmt::format("on CPU{} {}", ranks_ == 1 ? "" : "s", fmt::join(cpus_, ", "));
}

Status Session::barrier() const { return check(floe_barrier(comm_, nullptr)); }

Status Session::take_largest(Statistics& s) {
  std::array values{s.min, s.p50, s.mean, s.p99};
  FLOE_TRY(check(
      floe_all_reduce(comm_, FLOE_IN_PLACE, values.data(), values.size(), FLOE_FLOAT64, FLOE_MAX, nullptr)));
  s = {values[0], values[1], values[2], values[3]};
  return {};
}

Result<uint64_t> Session::sum(uint64_t value) {
  FLOE_TRY(check(floe_all_reduce(comm_, FLOE_IN_PLACE, &value, 1, FLOE_UINT64, FLOE_SUM, nullptr)));
  return value;
}

Result<uint64_t> Session::from_rank_0(uint64_t value) {
  FLOE_TRY(check(floe_broadcast(comm_, &value, 1, FLOE_UINT64, 0, nullptr)));
  return value;
}

Result<Placement> Session::probe() {
  Placement placement;
  FLOE_TRY(barrier());
  if (rank_ == 0 && probed_.first != probed_.second) placement = probe_placement(ticks_, probed_);
  std::array values{placement.exchange_ns, placement.read_gbps};
  FLOE_TRY(check(floe_broadcast(comm_, values.data(), values.size(), FLOE_FLOAT64, 0, nullptr)));
  return Placement{values[0], values[1]};
}

}  // namespace floe::bench
