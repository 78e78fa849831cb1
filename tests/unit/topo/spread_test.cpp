#include "topo/spread.h"

#include <gtest/gtest.h>
#include <hwloc.h>
#include <hwloc/distances.h>

#include <memory>
#include <vector>

#include "topo/topology.h"

namespace floe {
namespace {

// Two packages with two NUMA nodes each, a node has two L3 caches of two CPUs: CPUs 0 to 15.
class TwoSockets : public testing::Test {
 protected:
  void SetUp() override {
    hwloc_topology_t raw = nullptr;
    ASSERT_EQ(hwloc_topology_init(&raw), 0);
    machine_.reset(raw);
    ASSERT_EQ(hwloc_topology_set_synthetic(raw, "pack:2 numa:2 l3:2 pu:2"), 0);
    ASSERT_EQ(hwloc_topology_load(raw), 0);
    std::vector<hwloc_obj_t> nodes;
    for (unsigned i = 0; i < 4; ++i) nodes.push_back(hwloc_get_obj_by_type(raw, HWLOC_OBJ_NUMANODE, i));
    // As firmware gives them: 10 is local.
    std::vector<hwloc_uint64_t> distances = {10, 12, 21, 21, 12, 10, 21, 21, 21, 21, 10, 12, 21, 21, 12, 10};
    const auto handle = hwloc_distances_add_create(
        raw, "NUMALatency", HWLOC_DISTANCES_KIND_FROM_USER | HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0);
    ASSERT_NE(handle, nullptr);
    ASSERT_EQ(hwloc_distances_add_values(raw, handle, 4, nodes.data(), distances.data(), 0), 0);
    ASSERT_EQ(hwloc_distances_add_commit(raw, handle, 0), 0);
  }
  Spread of(const std::vector<unsigned>& cpus) const { return spread_of(machine_.get(), cpus); }

 private:
  std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> machine_{nullptr, hwloc_topology_destroy};
};

TEST_F(TwoSockets, ShareACacheOnlyIfAllAreUnderIt) {
  EXPECT_EQ(of({0}), (Spread{true, 100}));
  EXPECT_EQ(of({2, 3}), (Spread{true, 100}));
  EXPECT_EQ(of({1, 2}), (Spread{false, 100}));
}

TEST_F(TwoSockets, AreAsFarAsTheFarthestOfTheirNodes) {
  EXPECT_EQ(of({0, 4}), (Spread{false, 120}));
  EXPECT_EQ(of({0, 8}), (Spread{false, 210}));
  EXPECT_EQ(of({8, 12}), (Spread{false, 120}));
  EXPECT_EQ(of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}), (Spread{false, 210}));
}

TEST(Spread, OfThisMachineAgreesWithItsTopology) {
  const auto cpus = allowed_cpus();
  const auto machine = topology();
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(spread_of(cpus).one_cache, machine->l3_caches == 1);
  EXPECT_EQ(spread_of(std::span(cpus).first(1)).one_cache, machine->l3_caches > 0);
  EXPECT_EQ(spread_of(std::span(cpus).first(1)).memory_percent, 100u);
}

TEST(Spread, OfCpusThatDoNotExistIsUnknown) {
  const unsigned cpu = 65'000;
  EXPECT_EQ(spread_of(std::span(&cpu, 1)), Spread());
  EXPECT_EQ(spread_of({}), Spread());
}

TEST(Spread, SurvivesTheWay) {
  for (const Spread spread : {Spread{true, 100}, Spread{false, 210}, Spread{false, 10'000}}) {
    const auto again = Spread::decode(spread.encode());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, spread);
  }
}

TEST(Spread, RefusesAnythingElse) {
  for (const char* text : {"", "1", "1 ", "2 100", "1 99", "1 10001", "1 -100", "1 100 ", " 1 100", "1 1e3",
                           "0  100", "1 99999999999", "10 100"})
    EXPECT_FALSE(Spread::decode(text).ok()) << text;
}

}  // namespace
}  // namespace floe
