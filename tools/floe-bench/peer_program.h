// A library beside floe-bench, in one process a rank that some MPI's mpiexec has started: obeys floe-bench's
// commands on a Unix socket.
#pragma once

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "buffers.h"
#include "measure.h"

namespace floe::bench {

using Json = nlohmann::json;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "peer of floe-bench (pid %d): %s\n", getpid(), what.c_str());
  std::_Exit(1);
}

// Known before the library starts, so that it sees this process where it stays.
inline std::string rank_of_launcher() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char* rank = std::getenv(name)) return rank;
  fail("no launcher has set PMI_RANK, PMIX_RANK or OMPI_COMM_WORLD_RANK: start it by mpiexec");
}

class BenchLink {
 public:
  explicit BenchLink(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof(address.sun_path)) fail("the socket's name is too long");
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), length) != 0)
      fail("cannot connect to floe-bench's socket " + name + ": " + std::strerror(errno));
  }

  // False: floe-bench has closed the connection. Blocks: an idle peer leaves the CPU to others.
  bool read_line(std::string& line) {
    for (;;) {
      if (const size_t end = buffered_.find('\n'); end != std::string::npos) {
        line = buffered_.substr(0, end);
        buffered_.erase(0, end + 1);
        return true;
      }
      char chunk[4096];
      const ssize_t n = read(socket_, chunk, sizeof(chunk));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      buffered_.append(chunk, static_cast<size_t>(n));
    }
  }

  void write_line(std::string line) {
    line += '\n';
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t n = send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("floe-bench has gone");
      sent += static_cast<size_t>(n);
    }
  }

 private:
  int socket_ = -1;
  std::string buffered_;
};

inline void pin(const std::string& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::istringstream list(cpus);
  for (std::string cpu; std::getline(list, cpu, ',');) CPU_SET(std::stoul(cpu), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) fail("cannot run on CPUs " + cpus);
}

inline floe_type_t type_named(const std::string& name) {
  for (int type = 0; type < kTypes; ++type)
    if (name == type_name(type)) return static_cast<floe_type_t>(type);
  fail("no type " + name);
}

inline Case parse(const Json& command) {
  Case what;
  what.op = find_operation(command.at("op").get<std::string>());
  what.type = type_named(command.at("dtype"));
  what.count = command.at("count");
  what.in_place = command.at("in_place");
  what.manner = {command.at("cold"), command.at("touch"), command.at("heap"), command.at("offset"),
                 command.at("cpu")};
  return what;
}

// A Library joins the others that the launcher has started when it is made, and has
//   rank(), ranks(), barrier(), heap()
//   type(const Case&): its own for that case; empty: it has no such operation or type
//   run(Kind, that type, const Call&): false if it reported an error
//   place(const Case&, Call&): where its forms in place have their buffers, if not where floe's have
template <class Library>
Json run(Library& library, const Case& what, uint64_t iterations, Buffers& buffers, const Ticks& ticks) {
  const auto type = library.type(what);
  if (!type) return {{"unsupported", true}};
  auto call = buffers.prepare(what, library.rank(), library.ranks());
  if (!call) return {{"error", "no memory for the buffers: give smaller --sizes"}};
  library.place(what, *call);
  Timings timings;
  const auto once = [&] { return library.run(what.op->kind, *type, *call); };
  const auto meet = [&] {
    library.barrier();
    return true;
  };
  if (!measure(what, *call, ticks, iterations, once, meet, timings))
    return {{"error", "the library reported an error"}};
  return {{"us", timings.us}, {"cpu_ns", timings.cpu_ns}, {"errors", timings.errors}};
}

template <class Library>
int serve(const std::string& name) {
  const std::string expected = rank_of_launcher();
  BenchLink bench(name + "/" + expected);
  std::string line;
  if (!bench.read_line(line)) return 1;
  pin(line);
  Library library;
  if (std::to_string(library.rank()) != expected)
    fail("this is the library's rank " + std::to_string(library.rank()) + ", not " + expected);
  const Ticks ticks;
  Buffers buffers(library.heap());
  library.barrier();
  bench.write_line("ready");
  while (bench.read_line(line)) {
    const Json command = Json::parse(line);
    bench.write_line(run(library, parse(command), command.at("iterations"), buffers, ticks).dump());
  }
  return 0;
}

// argv: the abstract socket's name, to which /RANK is added. The CPUs to run on come first on it.
template <class Library>
int serve(int argc, char** argv) {
  if (argc == 2) return serve<Library>(argv[1]);
  std::fprintf(stderr, "usage: %s NAME, started by floe-bench\n", argc > 0 ? argv[0] : "peer");
  return 2;
}

}  // namespace floe::bench
