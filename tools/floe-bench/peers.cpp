#include "peers.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/clock.h"
#include "peer_contender.h"
#include "system.h"

namespace floe::bench {
namespace {

namespace fs = std::filesystem;

enum class Program { kTorch, kMpi };

struct Peer {
  std::string_view name;
  Program program;
};

// Gloo over floe's transport, which "all" does not mean: it is floe as well.
constexpr std::string_view kGlooOnFloe = "gloo-floe";
constexpr std::string_view kOneCcl = "oneccl";
constexpr std::string_view kShim = "libfloe_gloo_preload.so";

constexpr std::array kPeers = {
    Peer{"gloo", Program::kTorch},      Peer{"openmpi", Program::kMpi},     Peer{"mpich", Program::kMpi},
    Peer{"impi", Program::kMpi},        Peer{kOneCcl, Program::kMpi},       Peer{"vllm", Program::kTorch},
    Peer{"deepspeed", Program::kTorch}, Peer{kGlooOnFloe, Program::kTorch},
};

constexpr Millis kConnectTime = std::chrono::minutes(1);

const Peer* find_peer(std::string_view name) {
  const auto* peer =
      std::find_if(kPeers.begin(), kPeers.end(), [&](const Peer& p) { return p.name == name; });
  return peer == kPeers.end() ? nullptr : peer;
}

fs::path program_folder() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none).parent_path();
}

bool is_gloo(const Peer& peer) { return peer.name == "gloo" || peer.name == kGlooOnFloe; }

Status check_usable(const Peer& peer, const PeerPlaces& places) {
  if (is_gloo(peer)) {
    if (peer.name == kGlooOnFloe) FLOE_TRY(find_beside(kShim).status());
    if (has_module(choose_python(places), "torch")) return {};
    return error(FLOE_ERR_ENVIRONMENT,
                 "gloo is PyTorch's, and {} has no torch: --python or FLOE_PYTHON names an interpreter that "
                 "has it, or run tools/dev setup",
                 choose_python(places));
  }
#if defined(__x86_64__)
  if (peer.name == "vllm" && !__builtin_cpu_supports("avx512f"))
    return error(FLOE_ERR_UNSUPPORTED, "vllm's all_reduce needs AVX-512, which this CPU does not have");
#endif
  std::error_code none;  // the version is written when all else is there
  if (fs::exists(peer_path(places, fmt::format("{}/version", peer.name)), none)) return {};
  return error(FLOE_ERR_ENVIRONMENT, "{} is not installed in {}: run tools/dev peers {}", peer.name,
               peer_path(places, peer.name), peer.name);
}

Result<std::unique_ptr<Contender>> greeted(PeerContender::Link link) {
  auto peer = std::make_unique<PeerContender>(std::move(link));
  if (auto status = peer->greet(); !status.ok()) return status;
  return std::unique_ptr<Contender>(std::move(peer));
}

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return system_error("pipe", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Each rank's Python process meets the others at a port of rank 0's host.
Result<std::unique_ptr<Contender>> start_torch(const Peer& peer, const PeerPlaces& places, Session& session) {
  auto port = session.from_rank_0(session.rank() == 0 ? free_port() : 0);
  if (!port.ok()) return port.status();
  auto script = find_beside("peer_torch.py");
  if (!script.ok()) return script.status();
  auto commands = make_pipe(), answers = make_pipe();
  if (!commands.ok()) return commands.status();
  if (!answers.ok()) return answers.status();
  const char* address = std::getenv("MASTER_ADDR");
  std::vector<std::string> words = {choose_python(places),
                                    "-Wignore",
                                    *script,
                                    std::string(peer.name),
                                    peer_path(places, peer.name),
                                    std::to_string(session.rank()),
                                    std::to_string(session.ranks()),
                                    fmt::format("tcp://{}:{}", address ? address : "127.0.0.1", *port)};
  if (peer.name == kGlooOnFloe) {
    auto shim = find_beside(kShim);
    if (!shim.ok()) return shim.status();
    words.insert(words.begin(), {"env", "GLOO_DEVICE_TRANSPORT=FLOE", "LD_PRELOAD=" + *shim});
  }
  auto child = Child::start({std::move(words), commands->read.get(), answers->write.get(), false});
  if (!child.ok()) return child.status();
  answers->write.reset();  // else its end would not be seen before it has greeted
  return greeted(
      {std::string(peer.name), std::move(*child), std::move(commands->write), std::move(answers->read)});
}

// The abstract Unix socket at which `rank` waits for its MPI process.
struct MpiAddress {
  sockaddr_un address{};
  socklen_t length = 0;

  MpiAddress(uint64_t key, uint32_t rank) {
    const std::string name = fmt::format("floe-bench/{:016x}/{}", key, rank);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Result<UniqueFd> accept_process(int listener, Child* mpiexec) {
  for (const Deadline deadline = Deadline::in(kConnectTime); !deadline.passed();) {
    pollfd readable{listener, POLLIN, 0};
    if (poll(&readable, 1, 100) > 0) {
      UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      ucred who{};
      socklen_t length = sizeof(who);
      if (connection.valid() && getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 &&
          who.uid == geteuid())
        return connection;
    }
    if (mpiexec && mpiexec->ended())
      return error(FLOE_ERR_PEER, "its mpiexec {}: its messages are above", mpiexec->how());
  }
  return error(FLOE_ERR_TIMEOUT, "its process did not connect within {} s",
               std::chrono::duration_cast<std::chrono::seconds>(kConnectTime).count());
}

// Rank 0 starts mpiexec; each MPI process then connects to the rank that is its own.
Result<std::unique_ptr<Contender>> start_mpi(const Peer& peer, const PeerPlaces& places, Session& session) {
  if (!session.one_host()) return error(FLOE_ERR_UNSUPPORTED, "MPI peers need all ranks on one host");
  std::random_device random;
  auto key = session.from_rank_0((uint64_t{random()} << 32) | random());
  if (!key.ok()) return key.status();
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const MpiAddress here(*key, session.rank());
  if (!listener.valid() || bind(listener.get(), here.get(), here.length) != 0 ||
      listen(listener.get(), 1) != 0)
    return system_error("listening for its process", errno);
  if (auto status = session.barrier(); !status.ok()) return status;

  PeerContender::Link link;
  link.name = peer.name;
  link.has_heap = peer.name != kOneCcl;
  if (session.rank() == 0) {
    auto child = Child::start({{peer_path(places, fmt::format("{}/start", peer.name)),
                                std::to_string(session.ranks()), fmt::format("floe-bench/{:016x}", *key)},
                               -1,
                               -1,
                               true});
    if (!child.ok()) return child.status();
    link.child = std::move(*child);
  }
  auto connection = accept_process(listener.get(), link.child.get());
  if (!connection.ok()) return connection.status();
  link.to.reset(fcntl(connection->get(), F_DUPFD_CLOEXEC, 0));
  link.from = std::move(*connection);
  const std::string cpus = fmt::format("{}\n", fmt::join(session.my_cpus(), ","));
  if (write(link.to.get(), cpus.data(), cpus.size()) != static_cast<ssize_t>(cpus.size()))
    return system_error("writing to its process", errno);
  return greeted(std::move(link));
}

}  // namespace

std::string peer_path(const PeerPlaces& places, std::string_view path) {
  std::error_code none;
  fs::path folder = places.folder;
  if (folder.empty())
    folder = fs::exists("build-peers", none) ? "build-peers" : program_folder() / "../../build-peers";
  return fs::absolute(folder / path, none).lexically_normal().string();  // a venv's python stays a link
}

std::string choose_python(const PeerPlaces& places) {
  if (!places.python.empty()) return places.python;
  std::error_code none;
  for (const fs::path& root : {fs::path("."), program_folder() / "../.."})
    if (fs::exists(root / ".venv/bin/python", none)) return (root / ".venv/bin/python").string();
  return "python3";
}

bool has_module(const std::string& python, const std::string& module) {
  return succeeds({python, "-c",
                   "import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))",
                   module});
}

Result<std::string> find_beside(std::string_view file) {
  std::error_code none;
  const fs::path folder = program_folder();
  for (const char* place : {".", "../share/floe", "../lib", "../" FLOE_BENCH_LIBDIR})
    if (const auto path = folder / place / file; fs::exists(path, none))
      return path.lexically_normal().string();
  return error(FLOE_ERR_ENVIRONMENT,
               "{} is not beside floe-bench in {}, nor in ../share/floe, ../lib or ../" FLOE_BENCH_LIBDIR
               ": build or install all of floe",
               file, folder.string());
}

std::vector<std::string> peer_names() {
  std::vector<std::string> names;
  names.reserve(kPeers.size());
  for (const Peer& peer : kPeers) names.emplace_back(peer.name);
  return names;
}

Result<std::vector<std::string>> choose_peers(const std::vector<std::string>& names,
                                              const PeerPlaces& places) {
  std::vector<std::string> chosen;
  if (names == std::vector<std::string>{"all"}) {
    for (const Peer& peer : kPeers)
      if (peer.name != kGlooOnFloe && check_usable(peer, places).ok()) chosen.emplace_back(peer.name);
    return chosen;
  }
  for (const std::string& name : names) {
    const Peer* peer = find_peer(name);
    if (!peer)
      return error(FLOE_ERR_ARGUMENT, "'{}' is not a peer: use all, or some of {}", name,
                   fmt::join(peer_names(), ", "));
    FLOE_TRY(check_usable(*peer, places));
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(name);
  }
  return chosen;
}

std::string describe_peers(const std::vector<std::string>& names, const PeerPlaces& places) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    std::string version;
    std::ifstream(peer_path(places, fmt::format("{}/version", name))) >> version;
    words.push_back(version.empty() ? name : fmt::format("{} {}", name, version));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

Result<std::unique_ptr<Contender>> start_peer(const std::string& name, const PeerPlaces& places,
                                              Session& session) {
  const Peer& peer = *find_peer(name);
  auto started =
      peer.program == Program::kMpi ? start_mpi(peer, places, session) : start_torch(peer, places, session);
  if (!started.ok()) return started.status().in(fmt::format("--peer {}", name));
  return started;
}

}  // namespace floe::bench
