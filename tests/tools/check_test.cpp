// floe-info --check: limits as cgroups of either version give them, and who measures with whom.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "host_limits.h"
#include "pairs.h"

namespace floe::info {
namespace {

// A root with files of its own.
class Cgroups : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "floe-cgroups-XXXXXX";
    ASSERT_NE(nullptr, ::mkdtemp(pattern.data()));
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text << '\n';
  }

  std::string root_;
};

TEST_F(Cgroups, OfVersion2HaveTheTightestLimitOfAllAround) {
  put("/proc/self/cgroup", "0::/pod/container");
  put("/sys/fs/cgroup/pod/cpu.max", "150000 100000");
  put("/sys/fs/cgroup/pod/container/cpu.max", "max 100000");
  put("/sys/fs/cgroup/pod/memory.max", "1000000");
  put("/sys/fs/cgroup/pod/memory.current", "400000");
  put("/sys/fs/cgroup/pod/container/memory.max", "2000000");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(1.5, limits.cpus);
  EXPECT_EQ(1'000'000u, limits.memory_bytes);
  EXPECT_EQ(400'000u, limits.memory_used);
}

TEST_F(Cgroups, OfVersion1AreReadByController) {
  put("/proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n1:cpuset:/other");
  put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000");
  put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(0.5, limits.cpus);
  EXPECT_FALSE(limits.memory_bytes);
}

// A container's path is of the host's tree, which it does not see: its own limits are at the top.
TEST_F(Cgroups, OfAContainerAreAtTheTop) {
  put("/proc/self/cgroup", "0::/kubepods/burstable/pod1");
  put("/sys/fs/cgroup/memory.max", "5000");
  EXPECT_EQ(5000u, read_cgroup_limits(root_).memory_bytes);
}

TEST_F(Cgroups, ThatAreNoneOrNonsenseGiveNoLimit) {
  EXPECT_FALSE(read_cgroup_limits(root_).cpus);
  put("/proc/self/cgroup", "what is this\n0::/");
  put("/sys/fs/cgroup/cpu.max", "100000 zero");
  put("/sys/fs/cgroup/memory.max", "");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_FALSE(limits.cpus);
  EXPECT_FALSE(limits.memory_bytes);
}

TEST(Pairs, AllMeetOnceAndOneAtATime) {
  for (uint32_t size = 1; size <= 33; ++size) {
    std::set<std::pair<uint32_t, uint32_t>> met;
    for (uint32_t round = 0; round < rounds(size); ++round)
      for (uint32_t rank = 0; rank < size; ++rank) {
        const uint32_t other = partner(rank, size, round);
        ASSERT_LT(other, size);
        ASSERT_EQ(rank, partner(other, size, round));
        if (other != rank) {
          EXPECT_TRUE(met.emplace(rank, other).second) << rank << " meets " << other << " again";
        }
      }
    EXPECT_EQ(size * (size - 1), met.size());
  }
}

TEST(Sizes, AreForPeople) {
  EXPECT_EQ("512 B", size_text(512));
  EXPECT_EQ("64.0 MiB", size_text(64 << 20));
}

}  // namespace
}  // namespace floe::info
