// What TCP alone takes to move the bytes of an all_reduce: of a ring of hosts each sends 2(n-1)/n of them to
// the next one and receives as many, with plain sockets, and nothing is added. See between_hosts.py.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "statistics.h"

namespace {

constexpr int kWaitMs = 10'000;
constexpr size_t kPiece = 1 << 20;
constexpr size_t kWarmUp = 5, kFewest = 20, kMost = 300;
constexpr uint64_t kBytesOfASize = 300 << 20;

[[noreturn]] void stop(const std::string& what) {
  std::fprintf(stderr, "bare_tcp: %s\n", what.c_str());
  std::exit(1);
}

std::string after_the_wait() { return " after " + std::to_string(kWaitMs / 1000) + " s"; }

// What a system call returned.
int checked(int result, const std::string& what) {
  if (result < 0) stop(what + ": " + std::strerror(errno));
  return result;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return 1e6 * (seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

struct Ring {
  int next, previous;
  std::string next_name, previous_name;
};

int new_socket() { return checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"); }

void prepare(int socket) {
  const int yes = 1;
  checked(::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)), "TCP_NODELAY");
  checked(::fcntl(socket, F_SETFL, O_NONBLOCK), "O_NONBLOCK");
}

int listen(sockaddr_in address) {
  const int yes = 1, listener = new_socket();
  address.sin_addr.s_addr = INADDR_ANY;
  checked(::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), "SO_REUSEADDR");
  checked(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), "bind");
  checked(::listen(listener, 1), "listen");
  return listener;
}

// The next host, which may not listen yet.
int connect(const sockaddr_in& address, const std::string& name) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMs);
  for (;;) {
    const int socket = new_socket();
    const timeval second = {1, 0};  // bounds connect(), too
    checked(::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second)), "SO_SNDTIMEO");
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return socket;
    const int reason = errno;
    ::close(socket);
    if (std::chrono::steady_clock::now() > deadline)
      stop("cannot connect to " + name + after_the_wait() + ": " + std::strerror(reason));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Ring join(const std::vector<std::string>& hosts, size_t rank, uint16_t port) {
  Ring ring{-1, -1, hosts[(rank + 1) % hosts.size()], hosts[(rank + hosts.size() - 1) % hosts.size()]};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, ring.next_name.c_str(), &address.sin_addr) != 1)
    stop("'" + ring.next_name + "' is no IPv4 address");
  const int listener = listen(address);
  ring.next = connect(address, ring.next_name);
  pollfd waiting{listener, POLLIN, 0};
  if (checked(::poll(&waiting, 1, kWaitMs), "poll") == 0)
    stop(ring.previous_name + " has not connected" + after_the_wait());
  ring.previous = checked(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), "accept");
  ::close(listener);
  prepare(ring.next);
  prepare(ring.previous);
  return ring;
}

void exchange(const Ring& ring, uint64_t bytes, std::span<char> out, std::span<char> in) {
  const auto moved = [](ssize_t result, const std::string& peer) -> uint64_t {
    if (result < 0 && errno == EAGAIN) return 0;
    if (result <= 0)
      stop("the connection with " + peer +
           " has ended: " + (result == 0 ? "closed by its other side" : std::strerror(errno)));
    return static_cast<uint64_t>(result);
  };
  for (uint64_t sent = 0, received = 0; sent < bytes || received < bytes;) {
    pollfd both[] = {{ring.next, static_cast<short>(sent < bytes ? POLLOUT : 0), 0},
                     {ring.previous, static_cast<short>(received < bytes ? POLLIN : 0), 0}};
    if (checked(::poll(both, 2, kWaitMs), "poll") == 0)
      stop("nothing moves to " + ring.next_name + " or from " + ring.previous_name + after_the_wait());
    if (both[0].revents)
      sent += moved(::send(ring.next, out.data(), std::min<uint64_t>(out.size(), bytes - sent), MSG_NOSIGNAL),
                    ring.next_name);
    if (both[1].revents)
      received += moved(::recv(ring.previous, in.data(), std::min<uint64_t>(in.size(), bytes - received), 0),
                        ring.previous_name);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("What TCP alone takes to move the bytes of an all_reduce.");
  uint32_t rank = 0;
  uint16_t port = 0;
  std::vector<std::string> hosts;
  std::vector<uint64_t> sizes;
  app.add_option("--rank", rank, "This host's place in the list")->envname("RANK")->required();
  app.add_option("--hosts", hosts, "IPv4 addresses, by rank")->delimiter(',')->required();
  app.add_option("--port", port, "The same on all hosts")->required();
  app.add_option("sizes", sizes, "Bytes of an all_reduce")->required()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (hosts.size() < 2 || rank >= hosts.size()) stop("--hosts: two or more, and --rank is one of them");
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(rank % std::max(1U, std::thread::hardware_concurrency()), &cpus);
  ::sched_setaffinity(0, sizeof(cpus), &cpus);
  const Ring ring = join(hosts, rank, port);
  std::vector<char> out(kPiece), in(kPiece);
  for (const uint64_t bytes : sizes) {
    const uint64_t moved = std::max<uint64_t>(1, 2 * (hosts.size() - 1) * bytes / hosts.size());
    const size_t rounds = std::clamp<size_t>(kBytesOfASize / moved, kFewest, kMost);
    std::vector<double> times;
    double cpu = 0;
    for (size_t round = 0; round < kWarmUp + rounds; ++round) {
      if (round == kWarmUp) cpu = cpu_us();
      const auto begin = std::chrono::steady_clock::now();
      exchange(ring, moved, out, in);
      const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
      if (round >= kWarmUp) times.push_back(time.count());
    }
    const auto figures = floe::bench::statistics(times);
    std::printf("%llu,%f,%f,%f,%f,%f\n", static_cast<unsigned long long>(bytes), figures.min, figures.p50,
                figures.mean, figures.p99, (cpu_us() - cpu) / static_cast<double>(rounds));
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bare_tcp: %s\n", error.what());
  return 1;
}
