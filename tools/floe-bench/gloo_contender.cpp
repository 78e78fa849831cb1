#include "gloo_contender.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/types.h"

namespace floe::bench {
namespace {

using Json = nlohmann::json;

constexpr Millis kAnswerTime = std::chrono::minutes(3);  // importing torch on a loaded machine included

std::string choose_python(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  std::error_code none;
  return std::filesystem::exists(".venv/bin/python", none) ? ".venv/bin/python" : "python3";
}

// Beside the program in a build, in the data directory once installed.
Result<std::string> find_script() {
  std::error_code none;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  for (const auto& path : {folder / "peer_gloo.py", folder / "../share/floe/peer_gloo.py"})
    if (std::filesystem::exists(path, none)) return path.string();
  return error(FLOE_ERR_ENVIRONMENT, "peer_gloo.py is not beside floe-bench in {}, nor in ../share/floe",
               folder.string());
}

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return system_error("pipe to the Gloo process", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// In the child: only async-signal-safe calls.
[[noreturn]] void become(pid_t parent, const std::vector<char*>& argv, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) _exit(126);
  execvp(argv[0], argv.data());
  _exit(127);
}

}  // namespace

Result<std::unique_ptr<GlooContender>> GlooContender::start(const GlooConfig& config) {
  auto script = find_script();
  if (!script.ok()) return script.status();
  auto commands = make_pipe(), answers = make_pipe();
  if (!commands.ok()) return commands.status();
  if (!answers.ok()) return answers.status();

  std::vector<std::string> words = {choose_python(config.python), *script, std::to_string(config.rank),
                                    std::to_string(config.ranks),
                                    fmt::format("tcp://{}:{}", config.address, config.port)};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return system_error("starting the Gloo process", errno);
  if (pid == 0) become(parent, argv, commands->read.get(), answers->write.get());
  commands->read.reset();
  answers->write.reset();
  std::unique_ptr<GlooContender> peer(
      new GlooContender(pid, std::move(commands->write), std::move(answers->read)));

  auto hello = peer->read_line();
  if (!hello.ok()) return hello.status();
  if (*hello != "ready") return error(FLOE_ERR_INTERNAL, "the Gloo process said: {}", *hello);
  return peer;
}

GlooContender::~GlooContender() {
  to_.reset();  // it ends when its commands do
  const Deadline deadline = Deadline::in(std::chrono::seconds(5));
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (deadline.passed()) kill(pid_, SIGKILL);
    poll(nullptr, 0, 10);
  }
}

Status GlooContender::write_line(std::string line) {
  line += '\n';
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = write(to_.get(), line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("writing to the Gloo process", errno);
    sent += static_cast<size_t>(n);
  }
  return {};
}

Result<std::string> GlooContender::read_line() {
  const Deadline deadline = Deadline::in(kAnswerTime);
  for (;;) {
    if (const size_t end = buffered_.find('\n'); end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    pollfd readable{from_.get(), POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>(deadline.left().count()));
    if (ready < 0 && errno != EINTR) return system_error("waiting for the Gloo process", errno);
    if (ready == 0)
      return error(FLOE_ERR_TIMEOUT, "the Gloo process (pid {}) did not answer within {} s", pid_,
                   std::chrono::duration_cast<std::chrono::seconds>(kAnswerTime).count());
    if (ready < 0) continue;
    char chunk[65536];
    const ssize_t n = read(from_.get(), chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("reading from the Gloo process", errno);
    if (n == 0)
      return error(FLOE_ERR_PEER,
                   "the Gloo process (pid {}) ended: its messages are above; it needs torch, and --python "
                   "or FLOE_PYTHON names an interpreter that has it",
                   pid_);
    buffered_.append(chunk, static_cast<size_t>(n));
  }
}

Result<Timings> GlooContender::run(const Case& what, uint64_t iterations) {
  const Json command = {{"op", what.op->name},
                        {"dtype", type_name(what.type)},
                        {"count", what.count},
                        {"iterations", iterations}};
  if (auto status = write_line(command.dump()); !status.ok()) return status;
  auto line = read_line();
  if (!line.ok()) return line.status();
  const Json answer = Json::parse(*line, nullptr, false);
  if (!answer.is_object()) return error(FLOE_ERR_INTERNAL, "the Gloo process said: {}", *line);
  if (answer.contains("error")) return error(FLOE_ERR_PEER, "{}", answer["error"].get<std::string>());
  return Timings{answer.at("us").get<std::vector<double>>(), answer.at("errors").get<uint64_t>()};
}

}  // namespace floe::bench
