#include "boot/fd_message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

namespace floe {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return;
    left = UniqueFd(fds[0]);
    right = UniqueFd(fds[1]);
  }
  UniqueFd left, right;
};

// The message and the end may come while the reader is inside recvmsg(2): one round in some ten thousand.
TEST(FdMessage, ThatIsTheLastIsReceivedBeforeTheEnd) {
  constexpr int kRounds = 100'000;
  std::atomic<UniqueFd*> given = nullptr;  // the end that the writer takes, uses and closes
  std::thread writer([&] {
    std::atomic<int> pause = 0;
    for (int round = 0; round < kRounds; ++round) {
      UniqueFd* taken = nullptr;
      while ((taken = given.exchange(nullptr)) == nullptr) std::this_thread::yield();
      const UniqueFd end = std::move(*taken);
      for (pause = round % 100; pause != 0;) --pause;
      EXPECT_EQ(::send(end.get(), "x", 1, MSG_NOSIGNAL), 1);
    }
  });
  int lost = 0;
  for (int round = 0; round < kRounds; ++round) {
    Pair pair;
    given = &pair.right;
    std::array<std::byte, 8> buffer;
    FdMessage message;
    do {
      message = receive_with_fds(pair.left.get(), buffer);
    } while (message.problem == EAGAIN);
    lost += message.bytes != 1;
  }
  writer.join();
  EXPECT_EQ(lost, 0);
}

TEST(FdMessage, OfNoBytesIsAnEnd) {
  Pair pair;
  ASSERT_EQ(::send(pair.right.get(), "", 0, 0), 0);
  std::array<std::byte, 8> buffer;
  const FdMessage message = receive_with_fds(pair.left.get(), buffer);
  EXPECT_EQ(message.problem, 0);
  EXPECT_EQ(message.bytes, 0u);
}

}  // namespace
}  // namespace floe
