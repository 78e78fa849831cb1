#include "processes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace floe::test {
namespace {

using namespace std::chrono_literals;

// One page-aligned board, made before the first fork and shared by all processes since.
Report* board() {
  static Report* const reports = [] {
    void* memory = mmap(nullptr, Processes::kMost * sizeof(Report), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<Report*>(memory);
  }();
  return reports;
}

// Of the running test, in this process and, before the fork, in the one that it came from.
int failures() {
  const auto& result = *testing::UnitTest::GetInstance()->current_test_info()->result();
  int count = 0;
  for (int i = 0; i < result.total_part_count(); ++i) count += result.GetTestPartResult(i).failed();
  return count;
}

[[noreturn]] void run_rank(pid_t parent, uint32_t rank, uint32_t size, uint16_t port,
                           const std::function<void(uint32_t)>& body, const Environment& more) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(3);
  const int before = failures();
  for (const char* launcher : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "TORCHELASTIC_RUN_ID"})
    unsetenv(launcher);
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  for (const auto& [name, value] : more)
    if (value.empty())
      unsetenv(name.c_str());
    else
      setenv(name.c_str(), value.c_str(), 1);
  {
    SCOPED_TRACE("process of rank " + std::to_string(rank));
    body(rank);
  }
  std::fflush(nullptr);
  _exit(failures() > before ? 1 : 0);
}

Outcome outcome(int status) {
  if (WIFEXITED(status)) return {true, WEXITSTATUS(status), 0};
  return {true, -1, WTERMSIG(status)};
}

std::set<std::string> names_in_shared_memory() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none))
    names.insert(entry.path().filename());
  return names;
}

// And not as a part of a longer one.
bool contains_number(const std::string& text, const std::string& number) {
  const auto is_digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  for (size_t at = text.find(number); at != text.npos; at = text.find(number, at + 1))
    if ((at == 0 || !is_digit(at - 1)) && !is_digit(at + number.size())) return true;
  return false;
}

}  // namespace

void Report::note(floe_status_t result) {
  std::snprintf(text.data(), text.size(), "%s", floe_last_error());
  at = steady_seconds();
  status = result;  // last: who sees it sees the others
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = bind(fd, generic, length) == 0 && getsockname(fd, generic, &length) == 0;
  close(fd);
  EXPECT_TRUE(bound) << std::strerror(errno);
  return ntohs(address.sin_port);
}

size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
}

Report& Processes::report(uint32_t rank) { return board()[rank]; }

Processes::Processes(uint32_t size, const std::function<void(uint32_t)>& body, const Environment& more)
    : were_in_shared_memory_(names_in_shared_memory()) {
  for (uint32_t rank = 0; rank < kMost; ++rank) new (&board()[rank]) Report();
  const uint16_t port = free_port();
  const pid_t parent = getpid();
  std::fflush(nullptr);
  for (uint32_t rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) run_rank(parent, rank, size, port, body, more);
    EXPECT_GT(pid, 0) << std::strerror(errno);
    pids_.push_back(pid);
    started_.push_back(pid);
  }
  outcomes_.resize(size);
}

Processes::~Processes() { join(0s); }

std::vector<std::string> Processes::left_in_shared_memory() const {
  std::vector<std::string> left;
  for (const std::string& name : names_in_shared_memory()) {
    const auto has = [&](pid_t pid) { return contains_number(name, std::to_string(pid)); };
    const bool ours = name.find("floe") != name.npos || std::any_of(started_.begin(), started_.end(), has);
    // Ids of processes come again: what others have left, libfabric's shm provider for one, is not these
    // ones'.
    if (ours && !were_in_shared_memory_.contains(name)) left.push_back(name);
  }
  return left;
}

void Processes::signal(uint32_t rank, int number) { EXPECT_EQ(0, kill(pids_[rank], number)); }

bool Processes::wait_for_stage(uint64_t stage) {
  const double give_up = steady_seconds() + 60;
  const auto behind = [&](uint32_t rank) { return report(rank).stage < stage; };
  for (uint32_t rank = 0; rank < pids_.size(); ++rank)
    while (behind(rank)) {
      if (steady_seconds() > give_up || waitpid(pids_[rank], nullptr, WNOHANG | WNOWAIT) > 0) return false;
      std::this_thread::sleep_for(1ms);
    }
  return true;
}

std::vector<Outcome> Processes::join(std::chrono::seconds limit) {
  const double give_up = steady_seconds() + static_cast<double>(limit.count());
  for (size_t left = pids_.size(); left > 0;) {
    left = 0;
    const bool late = steady_seconds() > give_up;
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] == 0) continue;
      if (late) {
        kill(pids_[rank], SIGKILL);
        waitpid(pids_[rank], nullptr, 0);
      } else if (waitpid(pids_[rank], &status, WNOHANG) == pids_[rank]) {
        outcomes_[rank] = outcome(status);
      } else {
        ++left;
        continue;
      }
      pids_[rank] = 0;
    }
    if (left > 0) std::this_thread::sleep_for(2ms);
  }
  return outcomes_;
}

void Processes::expect_success(std::chrono::seconds limit, uint32_t except) {
  const auto outcomes = join(limit);
  for (uint32_t rank = 0; rank < outcomes.size(); ++rank) {
    if (rank == except) continue;
    EXPECT_TRUE(outcomes[rank].ended) << "rank " << rank << " did not end within " << limit.count() << " s";
    if (outcomes[rank].ended) {
      EXPECT_EQ(0, outcomes[rank].exit_code) << "rank " << rank << ", signal " << outcomes[rank].signal;
    }
  }
}

Member::Member(uint64_t timeout_ms) {
  status_ = floe_context_create(nullptr, &rank_.context);
  if (status_ != FLOE_OK) return;
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.timeout_ms = timeout_ms;
  status_ = floe_comm_create_from_env(rank_.context, &config, &rank_.comm);
  if (status_ != FLOE_OK) return;
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  EXPECT_FLOE_OK(floe_comm_info(rank_.comm, &info));
  rank_.rank = info.rank;
  rank_.size = info.size;
}

void Member::leave() {
  if (rank_.comm) {
    EXPECT_FLOE_OK(floe_comm_destroy(rank_.comm));
  }
  if (rank_.context) {
    EXPECT_FLOE_OK(floe_context_destroy(rank_.context));
  }
  rank_ = {};
}

}  // namespace floe::test
