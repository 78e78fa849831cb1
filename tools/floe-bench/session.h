// This rank's place in the run: its communicator, and what the ranks tell each other between blocks.
#pragma once

#include <floe/floe.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "placement.h"
#include "statistics.h"
#include "ticks.h"

namespace floe::bench {

class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Creates the communicator that the environment describes.
  Status join(const std::string& name = "bench");

  floe_context_t* context() const { return context_; }
  floe_comm_t* comm() const { return comm_; }
  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }
  const Ticks& ticks() const { return ticks_; }
  bool one_host() const { return one_host_; }
  bool pinned() const;  // every rank is, to one CPU
  size_t cpus() const;  // that ranks of this host may run on
  bool share_cpus() const { return one_host_ && ranks_ > cpus(); }
  const std::vector<unsigned>& my_cpus() const { return my_cpus_; }  // that this rank may run on
  std::string who() const;                                           // the rank, "?" before join()
  std::string describe_cpus() const;                                 // "CPUs 0, 1"

  Status barrier() const;
  // Each of them that of the rank where it is largest; on all ranks.
  Status take_largest(Statistics& statistics);
  Result<uint64_t> sum(uint64_t value);
  Result<uint64_t> from_rank_0(uint64_t value);
  // Rank 0 probes the placement while the others sleep, and tells them.
  Result<Placement> probe();

 private:
  Status find_cpus();

  floe_context_t* context_ = nullptr;
  floe_comm_t* comm_ = nullptr;
  uint32_t rank_ = 0;
  uint32_t ranks_ = 0;
  bool one_host_ = false;
  std::vector<unsigned> my_cpus_;
  std::vector<int64_t> cpus_;                   // by rank; -1: not pinned to one
  std::pair<unsigned, unsigned> probed_{0, 0};  // on rank 0; equal if there is nothing to probe
  Ticks ticks_;
};

}  // namespace floe::bench
