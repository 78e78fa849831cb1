// Small limits: what floe needs is there, or an error on all ranks says what is not; nothing leaks, and with
// room again all works again.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "exercise.h"
#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

// RLIMIT_NOFILE counts from the highest descriptor: leaves room for `more` above what is open.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlim_t highest = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      highest = std::max<rlim_t>(highest, std::stoul(entry.path().filename().string()));
    const rlimit limit{highest + more, before_.rlim_max};  // the iterator's own is closed again
    EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

void expect_words(floe_status_t status) {
  const auto allowed = {FLOE_ERR_SYSTEM, FLOE_ERR_STORE, FLOE_ERR_PEER, FLOE_ERR_TIMEOUT, FLOE_ERR_TRANSPORT};
  EXPECT_NE(allowed.end(), std::find(allowed.begin(), allowed.end(), status))
      << floe_status_string(status) << ": " << floe_last_error();
  EXPECT_NE(std::string(), floe_last_error());
}

TEST(Limits, FewDescriptorsAreAnErrorOrEnough) {
  for (const rlim_t more : {0, 1, 2, 3, 5, 7, 10, 40})
    Processes(2, [&](uint32_t) {
      const size_t descriptors = open_descriptors();
      {
        const DescriptorLimit limit(more);
        Member me(2000);
        if (me.status() == FLOE_OK) {
          Exercise(me.rank(), {.count = 10'000}, 1).run();
        } else {
          expect_words(me.status());
        }
      }
      EXPECT_LE(open_descriptors(), descriptors + 1) << "with room for " << more;  // hwloc's or libfabric's
    }).expect_success(30s);
}

// A split that one rank has no descriptors for fails on all, and the parent goes on.
TEST(Limits, ASplitWithoutDescriptorsLeavesTheParentUsable) {
  for (const rlim_t more : {0, 1, 2, 4})
    Processes(2, [&](uint32_t rank) {
      Member me(10'000);
      ASSERT_FLOE_OK(me.status());
      floe_comm_t* child = nullptr;
      floe_status_t status = FLOE_OK;
      if (rank == 1) {
        const DescriptorLimit limit(more);
        status = floe_comm_split(me.comm(), 0, 0, &child);
      } else {
        status = floe_comm_split(me.comm(), 0, 0, &child);
      }
      if (status != FLOE_OK) expect_words(status);
      // The same on both, or one would have half a communicator.
      int32_t failed = status != FLOE_OK, all = 0;
      ASSERT_FLOE_OK(floe_all_reduce(me.comm(), &failed, &all, 1, FLOE_INT32, FLOE_SUM, nullptr));
      EXPECT_TRUE(all == 0 || all == 2) << floe_last_error();
      if (child) {
        EXPECT_FLOE_OK(floe_comm_destroy(child));
      }
      ASSERT_FLOE_OK(floe_comm_split(me.comm(), 0, 0, &child));
      Exercise({me.rank().context, child, me.rank().rank, 2}, {.count = 10'000}, 1).run();
      EXPECT_FLOE_OK(floe_comm_destroy(child));
      Exercise(me.rank(), {.count = 10'000}, 2).run();
    }).expect_success(40s);
}

TEST(Limits, LockedMemoryIsNotNeeded) {
  Processes(2, [](uint32_t) {
    const rlimit none{0, 0};
    ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &none));
    Member me;
    ASSERT_FLOE_OK(me.status());
    Exercise(me.rank(), {.count = 1'000'000}, 1).run();
    void* memory = nullptr;
    ASSERT_FLOE_OK(floe_mem_alloc(me.rank().context, 1 << 20, &memory));
    EXPECT_FLOE_OK(floe_mem_free(me.rank().context, memory));
  }).expect_success(30s);
}

// In a mount namespace of their own; where that is not allowed there is nothing to test.
void with_dev_shm(unsigned long flags, const char* options) {
  Processes(2, [&](uint32_t) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", flags, options) != 0)
      return;
    Member me;
    ASSERT_FLOE_OK(me.status());
    Exercise(me.rank(), {.count = 4'000'000}, 1).run();
    floe_comm_t* child = nullptr;
    ASSERT_FLOE_OK(floe_comm_split(me.comm(), 0, 0, &child));
    EXPECT_FLOE_OK(floe_comm_destroy(child));
    EXPECT_TRUE(std::filesystem::is_empty("/dev/shm"));
  }).expect_success(60s);
}

TEST(Limits, ATinyDevShmDoesNotMatter) { with_dev_shm(0, "size=64k"); }
TEST(Limits, AReadOnlyDevShmDoesNotMatter) { with_dev_shm(MS_RDONLY, "size=64k"); }

}  // namespace
}  // namespace floe::test
