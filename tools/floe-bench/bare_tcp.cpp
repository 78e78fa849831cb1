// What TCP alone takes to move the bytes of an all_reduce: of a ring of hosts each sends 2(n-1)/n of them to
// the next one and receives as many, with plain sockets, and nothing is added. See between_hosts.py.
//
// usage: bare_tcp RANK HOSTS NEXT_ADDRESS PORT BYTES...
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "bare_tcp: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
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
};

void prepare(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  ::fcntl(socket, F_SETFL, O_NONBLOCK);
}

Ring connect(const char* next, uint16_t port) {
  const int yes = 1, listener = ::socket(AF_INET, SOCK_STREAM, 0);
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(listener, any, sizeof(address)) != 0 || ::listen(listener, 1) != 0) stop("listen");
  if (::inet_pton(AF_INET, next, &address.sin_addr) != 1) stop(next);
  Ring ring{};
  for (int attempt = 0;; ++attempt) {  // the next one may not listen yet
    ring.next = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(ring.next, any, sizeof(address)) == 0) break;
    if (attempt == kWaitMs / 20) stop(next);
    ::close(ring.next);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  pollfd waiting{listener, POLLIN, 0};
  if (::poll(&waiting, 1, kWaitMs) != 1) stop("nobody connects");
  ring.previous = ::accept(listener, nullptr, nullptr);
  prepare(ring.next);
  prepare(ring.previous);
  return ring;
}

void exchange(Ring ring, uint64_t bytes, std::span<char> out, std::span<char> in) {
  const auto moved = [](ssize_t result) -> uint64_t {
    if (result == 0 || (result < 0 && errno != EAGAIN)) stop("the connection ended");
    return result < 0 ? 0 : static_cast<uint64_t>(result);
  };
  for (uint64_t sent = 0, received = 0; sent < bytes || received < bytes;) {
    pollfd both[] = {{ring.next, static_cast<short>(sent < bytes ? POLLOUT : 0), 0},
                     {ring.previous, static_cast<short>(received < bytes ? POLLIN : 0), 0}};
    if (::poll(both, 2, kWaitMs) <= 0) stop("nothing moves");
    if (both[0].revents & POLLOUT)
      sent +=
          moved(::send(ring.next, out.data(), std::min<uint64_t>(out.size(), bytes - sent), MSG_NOSIGNAL));
    if (both[1].revents & POLLIN)
      received += moved(::recv(ring.previous, in.data(), std::min<uint64_t>(in.size(), bytes - received), 0));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: bare_tcp RANK HOSTS NEXT_ADDRESS PORT BYTES...\n");
    return 2;
  }
  const unsigned rank = static_cast<unsigned>(std::atoi(argv[1]));
  const uint64_t hosts = std::max<uint64_t>(2, std::strtoull(argv[2], nullptr, 10));
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(rank % std::max(1U, std::thread::hardware_concurrency()), &cpus);
  ::sched_setaffinity(0, sizeof(cpus), &cpus);
  const Ring ring = connect(argv[3], static_cast<uint16_t>(std::atoi(argv[4])));
  std::vector<char> out(kPiece), in(kPiece);
  for (const char* const size : std::span(argv + 5, argv + argc)) {
    const uint64_t bytes = std::strtoull(size, nullptr, 10);
    const uint64_t moved = std::max<uint64_t>(1, 2 * (hosts - 1) * bytes / hosts);
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
}
