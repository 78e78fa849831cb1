#include "topo/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace floe {
namespace {

TEST(Topology, CountsWhatThisProcessMayUse) {
  const auto machine = topology();
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->cpus, allowed_cpus().size());
  EXPECT_GE(machine->cores, 1u);
  EXPECT_LE(machine->cores, machine->cpus);
  EXPECT_GE(machine->packages, 1u);
  EXPECT_LE(machine->packages, machine->cores);
  EXPECT_GE(machine->numa_nodes, 1u);
  EXPECT_GE(machine->memory_bytes, static_cast<uint64_t>(::getpagesize()));
}

TEST(Topology, IsDescribedInOneLine) {
  const Topology small{.packages = 1, .numa_nodes = 1, .cores = 1, .cpus = 2, .memory_bytes = 512 << 20};
  EXPECT_EQ(small.describe(), "1 package, 1 NUMA node, 1 core, 2 CPUs, 512 MiB memory");
  const Topology large{.packages = 2,
                       .numa_nodes = 4,
                       .cores = 64,
                       .cpus = 128,
                       .l3_caches = 8,
                       .l3_bytes = 36u << 20,
                       .l2_bytes = 1280 << 10,
                       .memory_bytes = 515ull << 29};
  EXPECT_EQ(large.describe(),
            "2 packages, 4 NUMA nodes, 64 cores, 128 CPUs, L2 1.25 MiB, 8 x L3 36 MiB, 257.5 GiB memory");
}

}  // namespace
}  // namespace floe
