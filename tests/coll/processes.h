// Ranks as processes of the test, which find each other through the environment, as a launcher's would.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ranks.h"

namespace floe::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

// What one process tells the others and the test, in memory that they share.
struct Report {
  std::atomic<uint64_t> stage{0};  // whatever the test counts
  std::atomic<int> status{-1};     // floe_status_t
  std::atomic<double> at{0};       // steady seconds
  std::array<char, 1024> text{};

  // Notes a failed call of this thread, with floe's message.
  void note(floe_status_t result);
};

struct Outcome {
  bool ended = false;  // by itself; false: the harness killed it
  int exit_code = -1;  // -1: by a signal
  int signal = 0;
};

double steady_seconds();

// A port that nothing listens on at this moment.
uint16_t free_port();

size_t open_descriptors();

class Processes {
 public:
  static constexpr uint32_t kMost = 16;

  // Forks `size` processes that run body(rank), with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, and
  // then `more`. An expectation that fails in a process is printed and makes its exit code 1. The test must
  // not have called floe before.
  Processes(uint32_t size, const std::function<void(uint32_t)>& body, const Environment& more = {});
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();  // kills what is left

  pid_t pid(uint32_t rank) const { return pids_[rank]; }
  static Report& report(uint32_t rank);  // also in the processes
  void signal(uint32_t rank, int number);
  // Waits until every rank's stage has reached `stage`.
  bool wait_for_stage(uint64_t stage);
  // Waits for all to end, at most `limit`; kills those that don't.
  std::vector<Outcome> join(std::chrono::seconds limit = std::chrono::seconds(60));
  // New files in /dev/shm with the name of floe or the id of one of these processes.
  std::vector<std::string> left_in_shared_memory() const;
  // join(), and every rank but `except` exited with 0.
  void expect_success(std::chrono::seconds limit = std::chrono::seconds(60), uint32_t except = UINT32_MAX);

 private:
  std::vector<pid_t> pids_;  // 0 once it has been waited for
  std::vector<pid_t> started_;
  std::set<std::string> were_in_shared_memory_;
  std::vector<Outcome> outcomes_;
};

// In a process: a context and the communicator of the environment.
class Member {
 public:
  explicit Member(uint64_t timeout_ms = 30'000);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member() { leave(); }

  floe_status_t status() const { return status_; }  // of the creation
  const Rank& rank() const { return rank_; }
  floe_comm_t* comm() const { return rank_.comm; }
  void leave();

 private:
  floe_status_t status_ = FLOE_OK;
  Rank rank_;
};

}  // namespace floe::test
