#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/clock.h"

namespace floe::bench {
namespace {

constexpr Millis kLastWords = std::chrono::seconds(10);
constexpr Millis kAnswerTime = std::chrono::seconds(30);  // of a Python that only looks for a module

// In the child: only async-signal-safe calls.
[[noreturn]] void become(pid_t parent, char* const* argv, int in, int out, bool all_cpus) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGPIPE, SIG_DFL);
  if (all_cpus) {
    cpu_set_t set;
    std::memset(&set, 0xff, sizeof(set));  // the kernel takes those that the process may have
    sched_setaffinity(0, sizeof(set), &set);
  }
  if (in < 0) in = open("/dev/null", O_RDONLY);
  if (out < 0) out = STDERR_FILENO;
  if (getppid() != parent || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) _exit(126);
  execvp(argv[0], argv);
  _exit(127);
}

}  // namespace

Result<std::unique_ptr<Child>> Child::start(const Config& config) {
  std::vector<std::string> words = config.words;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return system_error(fmt::format("starting {}", words[0]), errno);
  if (pid == 0) become(parent, argv.data(), config.in, config.out, config.all_cpus);
  return std::unique_ptr<Child>(new Child(pid));
}

bool Child::ended() {
  if (!reaped_) reaped_ = waitpid(pid_, &status_, WNOHANG) != 0;
  return reaped_;
}

std::string Child::how() const {
  if (WIFSIGNALED(status_)) return fmt::format("was killed by signal {}", WTERMSIG(status_));
  if (WEXITSTATUS(status_) == 127) return "could not be executed";
  return fmt::format("exited with status {}", WEXITSTATUS(status_));
}

Child::~Child() {
  const Deadline polite = Deadline::in(kLastWords), last = Deadline::in(2 * kLastWords);
  for (bool told = false; !ended(); poll(nullptr, 0, 10)) {
    // An mpiexec that is terminated terminates its ranks.
    if (polite.passed() && !std::exchange(told, true)) kill(pid_, SIGTERM);
    if (last.passed()) kill(pid_, SIGKILL);
  }
}

bool succeeds(std::vector<std::string> words) {
  const UniqueFd nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  auto child = Child::start({std::move(words), -1, nowhere.get(), false});
  if (!child.ok()) return false;
  for (const Deadline deadline = Deadline::in(kAnswerTime); !(*child)->ended(); poll(nullptr, 0, 5))
    if (deadline.passed()) return false;
  return (*child)->how().ends_with("status 0");
}

}  // namespace floe::bench
