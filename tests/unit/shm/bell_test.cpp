#include "shm/bell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <thread>

#include "forbid.h"

namespace floe {
namespace {

Bell remote(const Bell& bell) {
  auto attached = Bell::attach(UniqueFd(::fcntl(bell.page_fd(), F_DUPFD_CLOEXEC, 0)),
                               UniqueFd(::fcntl(bell.event_fd(), F_DUPFD_CLOEXEC, 0)));
  EXPECT_TRUE(attached.ok());
  return std::move(*attached);
}

bool readable(const Bell& bell, int timeout_ms) {
  pollfd fd{bell.event_fd(), POLLIN, 0};
  return ::poll(&fd, 1, timeout_ms) == 1;
}

TEST(Bell, RingsOnlyASleeper) {
  auto own = Bell::create();
  ASSERT_TRUE(own.ok());
  const Bell peer = remote(*own);
  peer.ring_if_sleeping();
  EXPECT_FALSE(readable(*own, 0));
  EXPECT_TRUE(own->begin_sleep(std::atomic<bool>(false), false));
  peer.ring_if_sleeping();
  EXPECT_TRUE(readable(*own, 0));
  own->end_sleep();
  EXPECT_FALSE(readable(*own, 0));
}

// Whose fence: the waker's, the sleeper's on all cores, the waker's if it is asked, or now this and now that.
enum class Fence { kWakers, kSleepers, kAskedFor, kEither };
class EachFence : public testing::TestWithParam<Fence> {};

// Ping-pong through two flags where both sides sleep at once after each: one lost wake-up hangs it.
TEST_P(EachFence, LosesNoWakeUp) {
  auto first = Bell::create(), second = Bell::create();
  ASSERT_TRUE(first.ok() && second.ok());
  const std::atomic<bool> unfenced = GetParam() != Fence::kWakers;
  if (unfenced && !first->fences_all()) GTEST_SKIP() << "there is no membarrier(2)";
  std::atomic<int> turn{0};
  constexpr int kRounds = 20000;
  std::atomic<bool> lost{false};
  const auto often = [](int round) {
    constexpr int kSame = 7;
    return GetParam() == Fence::kAskedFor || (GetParam() == Fence::kEither && round / kSame % 2 == 0);
  };
  const auto play = [&](Bell& own, const Bell& peer, int parity) {
    for (int round = parity; round < kRounds && !lost; round += 2) {
      while (turn.load(std::memory_order_acquire) != round) {
        EXPECT_TRUE(own.begin_sleep(unfenced, often(round)));
        if (turn.load(std::memory_order_acquire) != round && !readable(own, 20000)) lost = true;
        own.end_sleep();
        if (lost) return;
      }
      turn.store(round + 1, std::memory_order_release);
      if (unfenced.load(std::memory_order_relaxed))
        std::atomic_signal_fence(std::memory_order_seq_cst);
      else
        std::atomic_thread_fence(std::memory_order_seq_cst);
      peer.ring_if_sleeping();
    }
  };
  const Bell to_first = remote(*first), to_second = remote(*second);
  std::thread other([&] { play(*second, to_first, 1); });
  play(*first, to_second, 0);
  other.join();
  EXPECT_FALSE(lost);
}

INSTANTIATE_TEST_SUITE_P(Fences, EachFence,
                         testing::Values(Fence::kWakers, Fence::kSleepers, Fence::kAskedFor, Fence::kEither));

TEST(Bell, SaysWhenTheKernelRefusesToFence) {
  auto own = Bell::create();
  ASSERT_TRUE(own.ok());
  if (!own->fences_all()) GTEST_SKIP() << "there is no membarrier(2)";
  EXPECT_TRUE(remote(*own).fences_all());
  std::thread([&] {
    ASSERT_TRUE(test::forbid(SYS_membarrier));
    EXPECT_TRUE(own->begin_sleep(std::atomic<bool>(false), false));
    EXPECT_FALSE(own->begin_sleep(std::atomic<bool>(true), false));
    EXPECT_FALSE(own->begin_sleep(std::atomic<bool>(true), true)) << "nor does anybody know that it asks";
    EXPECT_FALSE(own->begin_sleep(std::atomic<bool>(true), true));
    const auto other = Bell::create();
    ASSERT_TRUE(other.ok());
    EXPECT_FALSE(other->fences_all());
    EXPECT_FALSE(remote(*other).fences_all());
  }).join();
}

TEST(Bell, HasAllCoresFenceOnlyOnceWhileItAsks) {
  auto own = Bell::create();
  ASSERT_TRUE(own.ok());
  if (!own->fences_all()) GTEST_SKIP() << "there is no membarrier(2)";
  const std::atomic<bool> unfenced = true;
  EXPECT_TRUE(own->begin_sleep(unfenced, true));
  own->end_sleep();
  std::thread([&] {
    ASSERT_TRUE(test::forbid(SYS_membarrier));
    for (const bool often : {true, true, false}) {
      EXPECT_TRUE(own->begin_sleep(unfenced, often));
      own->end_sleep();
    }
    EXPECT_FALSE(own->begin_sleep(unfenced, false)) << "wakers do without a fence again";
    own->end_sleep();
  }).join();
}

TEST(Bell, RefusesAPageThatCouldShrink) {
  UniqueFd page(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(page.get(), 4096), 0);
  EXPECT_FALSE(Bell::attach(std::move(page), UniqueFd()).ok());
}

}  // namespace
}  // namespace floe
