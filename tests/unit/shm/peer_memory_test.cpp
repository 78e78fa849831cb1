// What a rank reads of another process, and what it must not take for that.
#include "shm/peer_memory.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace floe {
namespace {

using testing::HasSubstr;

class PeerMemory : public testing::Test {
 protected:
  PeerMemory() : segment(*Segment::create(2, 1, 42)), data(10'000), to(10'000) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  }
  void SetUp() override {
    std::array<char, 2> bytes{};
    const iovec here{&bytes[0], 1}, there{&bytes[1], 1};
    if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != 1)
      GTEST_SKIP() << "process_vm_readv is not to be had here: " << std::strerror(errno);
  }
  Status read(const void* from) {
    std::fill(to.begin(), to.end(), std::byte{});
    return read_memory_of(*segment, reinterpret_cast<uint64_t>(from), to);
  }
  SegmentHeader& header() { return segment->header(); }

  std::shared_ptr<Segment> segment;
  std::vector<std::byte> data, to;
};

TEST_F(PeerMemory, OfAThreadOfThisProcess) {
  ASSERT_TRUE(read(data.data()).ok());
  EXPECT_EQ(to, data);
}

// The child has a copy of `data`, which it changes, and the nonce where it put it.
TEST_F(PeerMemory, OfAnotherProcessWhileThatIsTheOneThatWasMeant) {
  std::array<int, 2> ready{};
  ASSERT_EQ(0, ::pipe(ready.data()));
  uint64_t nonce = 42;
  const pid_t child = ::fork();
  if (child == 0) {
    data[1] = std::byte{99};
    if (::write(ready[1], "", 1) != 1) ::_exit(1);
    ::pause();
  }
  ASSERT_GT(child, 0);
  char byte = 0;
  ASSERT_EQ(1, ::read(ready[0], &byte, 1));
  header().pid = child;
  header().nonce_at = reinterpret_cast<uint64_t>(&nonce);
  ASSERT_TRUE(read(data.data()).ok());
  EXPECT_EQ(to[1], std::byte{99});
  EXPECT_EQ(to[2], data[2]);

  header().nonce_at = reinterpret_cast<uint64_t>(data.data());
  EXPECT_THAT(read(data.data()).message(), HasSubstr("of another process"));

  header().nonce_at = reinterpret_cast<uint64_t>(&nonce);
  ASSERT_EQ(0, ::kill(child, SIGKILL));
  ASSERT_EQ(child, ::waitpid(child, nullptr, 0));
  EXPECT_THAT(read(data.data()).message(), HasSubstr("No such process"));
}

TEST_F(PeerMemory, ThatIsNotThere) {
  EXPECT_THAT(read(nullptr).message(), HasSubstr("Bad address"));
  // Ends in the middle of what is to be read.
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), pages = (to.size() / page + 1) * page;
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(0, ::munmap(memory + pages, pages));
  EXPECT_TRUE(read(memory + pages - to.size()).ok());
  EXPECT_THAT(read(memory + pages - 100).message(), HasSubstr("process_vm_readv: 100 of 10008 bytes"));
  ASSERT_EQ(0, ::munmap(memory, pages));
}

TEST_F(PeerMemory, OfOneThatHasEnded) {
  for (const RankState state : {RankState::kLeft, RankState::kFailed}) {
    header().state = static_cast<uint32_t>(state);
    EXPECT_EQ(read(data.data()).code(), FLOE_ERR_PEER);
  }
}

}  // namespace
}  // namespace floe
