// Debian's libgloo (revision R0): our declarations against its headers, and a program over Gloo's tcp, over
// floe without knowing it, and over floe because it is linked with it.
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "gloo_abi.h"

namespace {

namespace r0 = floe::gloo_abi::r0;
namespace theirs = gloo::transport;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
// A class of theirs, opened: members are protected, and all at the same place in a derived class.
struct OpenBuffer : theirs::Buffer {
  static constexpr size_t slot() { return offsetof(OpenBuffer, slot_); }
  static constexpr size_t ptr() { return offsetof(OpenBuffer, ptr_); }
  static constexpr size_t size() { return offsetof(OpenBuffer, size_); }
  static constexpr size_t debug() { return offsetof(OpenBuffer, debug_); }
};
struct OpenPair : theirs::Pair {
  static constexpr size_t local_rank() { return offsetof(OpenPair, localRank_); }
};
struct OpenContext : theirs::Context {
  static constexpr size_t mutex() { return offsetof(OpenContext, mutex_); }
  static constexpr size_t pairs() { return offsetof(OpenContext, pairs_); }
  static constexpr size_t timeout() { return offsetof(OpenContext, timeout_); }
  static constexpr size_t pending() { return offsetof(OpenContext, pendingOperations_); }
  static constexpr size_t expected() { return offsetof(OpenContext, expectedNotifications_); }
};

static_assert(sizeof(theirs::Device) == sizeof(r0::Device));
static_assert(sizeof(theirs::Address) == sizeof(r0::Address));
static_assert(sizeof(theirs::Buffer) == sizeof(r0::Buffer));
static_assert(OpenBuffer::slot() == offsetof(r0::Buffer, slot_));
static_assert(OpenBuffer::ptr() == offsetof(r0::Buffer, ptr_));
static_assert(OpenBuffer::size() == offsetof(r0::Buffer, size_));
static_assert(OpenBuffer::debug() == offsetof(r0::Buffer, debug_));
static_assert(sizeof(theirs::UnboundBuffer) == sizeof(r0::UnboundBuffer));
static_assert(offsetof(theirs::UnboundBuffer, ptr) == offsetof(r0::UnboundBuffer, ptr));
static_assert(offsetof(theirs::UnboundBuffer, size) == offsetof(r0::UnboundBuffer, size));
static_assert(theirs::UnboundBuffer::kUnspecifiedByteCount == r0::kRestOfBuffer);
static_assert(theirs::kUnsetTimeout == r0::kUnsetTimeout);
static_assert(sizeof(theirs::Pair) == sizeof(r0::Pair));
static_assert(OpenPair::local_rank() == offsetof(r0::Pair, localRank_));
static_assert(sizeof(theirs::Context) == sizeof(r0::Context));
static_assert(offsetof(theirs::Context, rank) == offsetof(r0::Context, rank));
static_assert(offsetof(theirs::Context, size) == offsetof(r0::Context, size));
static_assert(OpenContext::mutex() == offsetof(r0::Context, mutex_));
static_assert(OpenContext::pairs() == offsetof(r0::Context, pairs_));
static_assert(OpenContext::timeout() == offsetof(r0::Context, timeout_));
static_assert(OpenContext::pending() == offsetof(r0::Context, pendingOperations_));
static_assert(OpenContext::expected() == offsetof(r0::Context, expectedNotifications_));
#pragma GCC diagnostic pop

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

enum class Transport { kTcp, kPreloaded, kLinked };

// The program's ranks as processes, each with its output in a log; what is left of them is killed.
class Ranks {
 public:
  Ranks(const std::string& name, int size, const char* mode, Transport transport)
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("libgloo-" + std::to_string(getpid()) + '-' + name)) {
    std::filesystem::create_directories(folder_);
    for (int rank = 0; rank < size; ++rank) {
      const std::string log = this->log(rank), number = std::to_string(rank), all = std::to_string(size);
      const pid_t pid = fork();
      if (pid == 0) {
        if (transport == Transport::kPreloaded) setenv("LD_PRELOAD", FLOE_TEST_PRELOAD, 1);
        if (!std::freopen(log.c_str(), "w", stdout) || dup2(fileno(stdout), 2) < 0) _exit(127);
        const char* const program =
            transport == Transport::kLinked ? FLOE_TEST_LINKED_PROGRAM : FLOE_TEST_PROGRAM;
        execl(program, program, folder_.c_str(), number.c_str(), all.c_str(), mode, nullptr);
        _exit(127);
      }
      pids_.push_back(pid);
    }
  }
  ~Ranks() {
    for (const pid_t pid : pids_) {
      if (pid > 0 && kill(pid, SIGKILL) == 0) waitpid(pid, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // The exit code; 128 and the number of a signal.
  int wait(int rank) {
    int status = 0;
    waitpid(std::exchange(pids_[rank], 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void succeed() {
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) EXPECT_EQ(wait(rank), 0) << text(rank);
  }
  void kill_rank(int rank) { kill(pids_[rank], SIGKILL); }
  std::string text(int rank) const { return contents(log(rank)); }
  std::string result(int rank) const { return contents(folder_ / std::to_string(rank)); }

 private:
  std::filesystem::path log(int rank) const { return folder_ / ("log" + std::to_string(rank)); }

  std::filesystem::path folder_;
  std::vector<pid_t> pids_;
};

TEST(Libgloo, EveryAlgorithmGivesTheSameBitsAsOverTcp) {
  for (const int size : {2, 3, 4, 8}) {
    Ranks tcp("tcp", size, "collectives", Transport::kTcp);
    tcp.succeed();
    EXPECT_THAT(tcp.text(0), HasSubstr("device tcp"));
    for (const Transport transport : {Transport::kPreloaded, Transport::kLinked}) {
      Ranks floe("floe", size, "collectives", transport);
      floe.succeed();
      EXPECT_THAT(floe.text(0), HasSubstr("device floe"));
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_GT(tcp.result(rank).size(), 1 << 20);
        EXPECT_TRUE(floe.result(rank) == tcp.result(rank)) << "rank " << rank << " of " << size;
      }
    }
  }
}

TEST(Libgloo, TimeoutsAreIoExceptionsThatNameTheRank) {
  Ranks ranks("timeouts", 2, "timeouts", Transport::kLinked);
  ranks.succeed();
  for (const char* what : {"\nrecv: ", "\nbound recv: ", "\nbarrier: "}) {
    EXPECT_THAT(ranks.text(0), HasSubstr(std::string(what) + "IoException: floe: rank 0: recv from rank 1"));
  }
  EXPECT_THAT(ranks.text(0),
              AllOf(HasSubstr("Timed out waiting 200ms"), HasSubstr("Timed out waiting 300ms")));
}

TEST(Libgloo, SurvivorsOfAKilledRankAreToldWithinASecond) {
  constexpr int kRanks = 4, kKilled = 2;
  Ranks ranks("killed", kRanks, "forever", Transport::kPreloaded);
  for (int rank = 0; rank < kRanks; ++rank) {
    while (ranks.text(rank).find("started") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ranks.kill_rank(kKilled);
  const auto killed = std::chrono::steady_clock::now();
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kKilled) continue;
    EXPECT_EQ(ranks.wait(rank), 0);
    EXPECT_THAT(ranks.text(rank), AllOf(HasSubstr("IoException"), HasSubstr("rank 2 ("), HasSubstr("died")));
  }
  // A second, and what a busy machine takes to end three processes.
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(3));
}

}  // namespace
