#include "launch.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "system.h"
#include "topo/topology.h"

namespace floe::bench {
namespace {

constexpr auto kLastWords = std::chrono::seconds(3);

// What the ranks inherit: this process's variables without any launcher's, and ours.
std::vector<std::string> rank_environment(uint32_t rank, uint32_t ranks, uint16_t port) {
  constexpr std::string_view launchers[] = {
      "RANK=",       "WORLD_SIZE=", "LOCAL_RANK=",   "LOCAL_WORLD_SIZE=",
      "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_", "PMI_",
      "OMPI_",       "SLURM_"};
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (std::none_of(std::begin(launchers), std::end(launchers),
                     [&](auto name) { return text.starts_with(name); }))
      variables.emplace_back(text);
  }
  variables.push_back(fmt::format("RANK={}", rank));
  variables.push_back(fmt::format("LOCAL_RANK={}", rank));
  variables.push_back(fmt::format("WORLD_SIZE={}", ranks));
  variables.push_back(fmt::format("LOCAL_WORLD_SIZE={}", ranks));
  variables.push_back("MASTER_ADDR=127.0.0.1");
  variables.push_back(fmt::format("MASTER_PORT={}", port));
  return variables;
}

// "--ranks N" and "--ranks=N" taken out, "--join" put in.
std::vector<std::string> rank_arguments(int argc, char** argv) {
  std::vector<std::string> arguments = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--ranks")
      ++i;
    else if (!word.starts_with("--ranks="))
      arguments.emplace_back(word);
  }
  arguments.emplace_back("--join");
  return arguments;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

class LocalRun {
 public:
  explicit LocalRun(uint32_t ranks) : pids_(ranks, 0) {
    sigemptyset(&signals_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, number);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
  }

  bool start(int argc, char** argv);
  int supervise();

 private:
  [[noreturn]] void become_rank(pid_t parent, int64_t cpu, char** argv, char** variables);
  void reap();
  void kill_all(int number);
  bool running() const {
    return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid != 0; });
  }

  std::vector<pid_t> pids_;  // by rank; 0 once it has ended
  sigset_t signals_, before_;
  int exit_code_ = 0;
};

bool LocalRun::start(int argc, char** argv) {
  const uint16_t port = free_port();
  if (port == 0) {
    fmt::print(stderr, "floe-bench: no free port on 127.0.0.1: {}\n", std::strerror(errno));
    return false;
  }
  const auto cpus = allowed_cpus();
  const auto ranks = static_cast<uint32_t>(pids_.size());
  auto arguments = rank_arguments(argc, argv);
  const pid_t parent = getpid();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto variables = rank_environment(rank, ranks, port);
    // Ranks that share CPUs, too: where they may run anywhere, and yield every few microseconds, Linux has
    // four of them on one of two CPUs as often as not, and the other one idle, whatever library they use.
    const int64_t cpu = cpus.empty() ? -1 : int64_t{cpus[rank % cpus.size()]};
    auto words = pointers(arguments), settings = pointers(variables);
    const pid_t pid = fork();
    if (pid == 0) become_rank(parent, cpu, words.data(), settings.data());
    if (pid < 0) {
      fmt::print(stderr, "floe-bench: cannot start rank {}: {}\n", rank, std::strerror(errno));
      kill_all(SIGKILL);
      exit_code_ = 1;
      return true;
    }
    pids_[rank] = pid;
  }
  return true;
}

void LocalRun::become_rank(pid_t parent, int64_t cpu, char** argv, char** variables) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  if (cpu >= 0) pin_to(static_cast<unsigned>(cpu));
  execve("/proc/self/exe", argv, variables);
  _exit(127);
}

void LocalRun::kill_all(int number) {
  for (const pid_t pid : pids_)
    if (pid > 0) kill(pid, number);
}

void LocalRun::reap() {
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    int status = 0;
    if (pids_[rank] == 0 || waitpid(pids_[rank], &status, WNOHANG) <= 0) continue;
    if (WIFSIGNALED(status)) {
      const int number = WTERMSIG(status);
      if (exit_code_ == 0)
        fmt::print(stderr, "floe-bench: rank {} (pid {}) was killed by signal {} ({}); the run ends\n", rank,
                   pids_[rank], number, strsignal(number));
      exit_code_ = exit_code_ == 0 ? 128 + number : exit_code_;
    } else if (WEXITSTATUS(status) != 0 && exit_code_ == 0) {
      exit_code_ = WEXITSTATUS(status);
    }
    pids_[rank] = 0;
  }
}

int LocalRun::supervise() {
  Deadline grace = Deadline::never();
  bool ending = false;
  for (reap(); running(); reap()) {
    if (exit_code_ != 0 && !ending) {
      ending = true;
      grace = Deadline::in(kLastWords);
    }
    if (grace.passed()) kill_all(SIGKILL);
    const timespec nap{0, 100'000'000};
    const int number = sigtimedwait(&signals_, nullptr, &nap);
    if (number > 0 && number != SIGCHLD) {
      exit_code_ = 128 + number;
      kill_all(SIGKILL);
    }
  }
  return exit_code_;
}

}  // namespace

int run_local_ranks(uint32_t ranks, int argc, char** argv) {
  LocalRun run(ranks);
  return run.start(argc, argv) ? run.supervise() : 1;
}

}  // namespace floe::bench
