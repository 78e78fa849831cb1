#include "fixture.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "fabric/libfabric.h"

// libfabric 1.17 leaks some of its own descriptions with each endpoint of `net`.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libfabric.so\n";
}

namespace floe {

Stream::Stream(uint32_t seed, size_t largest) : seed_(seed), largest_(largest), noise_(2 * largest) {
  std::minstd_rand random(seed + 1);
  for (std::byte& byte : noise_) byte = static_cast<std::byte>(random() >> 8);
}

PacketHeader Stream::header(uint64_t sequence) const {
  PacketHeader h;
  h.kind = PacketKind::kEager;
  h.source = seed_;
  h.tag = sequence;
  h.bytes = payload(sequence).size();
  return h;
}

// Mostly small, an eighth of any size, and now and then nothing or the largest that there is.
std::span<const std::byte> Stream::payload(uint64_t sequence) const {
  const uint64_t mixed = (sequence + seed_) * 0x9e3779b97f4a7c15;
  const size_t any = (mixed >> 20) % (largest_ + 1);
  const size_t size = sequence % 64 == 7   ? largest_
                      : sequence % 64 == 8 ? 0
                      : sequence % 8 == 1  ? any
                                           : any % 2048;
  return std::span(noise_).subspan((mixed >> 40) % largest_, size);
}

Collector::Collector(uint32_t sources, size_t largest) : counts_(sources) {
  for (uint32_t source = 0; source < sources; ++source) streams_.emplace_back(source, largest);
}

void Collector::on_packet(const PacketHeader& header, std::span<const std::byte> payload) {
  ASSERT_LT(header.source, counts_.size());
  const uint64_t sequence = counts_[header.source]++;
  const PacketHeader expected = streams_[header.source].header(sequence);
  ASSERT_EQ(std::memcmp(&header, &expected, sizeof header), 0)
      << "packet " << header.tag << " of " << header.source << " where " << sequence << " was due";
  const auto bytes = streams_[header.source].payload(sequence);
  ASSERT_TRUE(std::equal(payload.begin(), payload.end(), bytes.begin(), bytes.end()))
      << "packet " << sequence;
}

void Collector::on_peer_lost(PeerId peer, const Status& why) { losses_.emplace_back(peer, why); }

uint64_t Collector::total() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

std::unique_ptr<FabricTransport> open_transport(const std::string& provider) {
  FabricOptions options;
  options.provider = provider;
  options.one_host = true;
  auto transport = FabricTransport::open(options);
  if (!transport.ok()) {
    ADD_FAILURE() << transport.status().message();
    throw std::runtime_error("no transport");
  }
  return std::move(*transport);
}

bool progress_until(const std::vector<Pair>& all, const std::function<bool()>& done, Millis limit) {
  const Deadline deadline = Deadline::in(limit);
  while (!done()) {
    if (deadline.passed() || testing::Test::HasFatalFailure()) return false;
    int events = 0;
    for (const auto& [transport, sink] : all) events += transport->progress(*sink);
    if (events == 0) ::sched_yield();  // the other process may share this core
  }
  return true;
}

Process::Process(const std::function<int(int socket)>& body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
  socket_.reset(ends[0]);
  UniqueFd theirs(ends[1]);
  pid_ = ::fork();
  if (pid_ != 0) return;
  socket_.reset();
  ::alarm(60);  // never outlives a test that hangs
  int code = 99;
  try {
    code = body(theirs.get());
    if (testing::Test::HasFailure()) code = 98;
  } catch (const std::exception&) {
  }
  ::_exit(code);
}

Process::~Process() {
  if (pid_ > 0) kill();
}

void Process::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  // libfabric's shm leaves its segments behind when it is killed.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored))
    if (entry.path().filename().string().starts_with(std::to_string(pid_) + ":"))
      std::filesystem::remove(entry.path(), ignored);
  pid_ = -1;
}

int Process::wait(Millis limit) {
  const Deadline deadline = Deadline::in(limit);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0) {
    if (deadline.passed()) return -1;
    ::usleep(1000);
  }
  pid_ = -1;
  return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void send_line(int socket, const std::string& line) {
  const std::string text = line + '\n';
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("the other process is gone");
}

std::string receive_line(int socket) {
  std::string line;
  for (char c = 0; ::recv(socket, &c, 1, 0) == 1;) {
    if (c == '\n') return line;
    line.push_back(c);
  }
  throw std::runtime_error("the other process is gone");
}

void FabricTest::SetUp() {
  if (const auto lib = fabric::Libfabric::load(); !lib.ok()) GTEST_SKIP() << lib.status().message();
}

}  // namespace floe
