#include "boot/fd_message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "support.h"

namespace floe {
namespace {

int make_pair(int (&fds)[2]) { return ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds); }

// The message and the end may come while the reader is inside recvmsg(2): one round in some ten thousand.
TEST(FdMessage, ThatIsTheLastIsReceivedBeforeTheEnd) {
  constexpr int kRounds = 100'000, kNone = -2;
  std::atomic<int> given = kNone;  // the end that the writer takes, uses and closes
  std::atomic<bool> over = false;
  std::thread writer([&] {
    std::atomic<int> pause = 0;
    for (int round = 0; !over;) {
      const int taken = given.exchange(kNone);
      if (taken == kNone) {
        std::this_thread::yield();
        continue;
      }
      const UniqueFd end(taken);
      for (pause = ++round % 100; pause != 0;) --pause;
      EXPECT_EQ(::send(end.get(), "x", 1, MSG_NOSIGNAL), 1);
    }
  });
  bool received = true;
  for (int round = 0; round < kRounds && received; ++round) {
    int pair[2] = {-1, -1};
    EXPECT_EQ(make_pair(pair), 0);
    const UniqueFd end(pair[0]);
    given = pair[1];
    const Deadline deadline = test::soon();
    std::array<std::byte, 8> buffer;
    FdMessage message;
    do {
      message = receive_with_fds(end.get(), buffer);
    } while (message.problem == EAGAIN && !deadline.passed());
    received = message.bytes == 1;
  }
  over = true;
  writer.join();
  EXPECT_TRUE(received);
}

TEST(FdMessage, OfNoBytesIsAnEnd) {
  int pair[2];
  ASSERT_EQ(make_pair(pair), 0);
  const UniqueFd left(pair[0]), right(pair[1]);
  ASSERT_EQ(::send(right.get(), "", 0, 0), 0);
  std::array<std::byte, 8> buffer;
  const FdMessage message = receive_with_fds(left.get(), buffer);
  EXPECT_EQ(message.problem, 0);
  EXPECT_EQ(message.bytes, 0u);
}

}  // namespace
}  // namespace floe
