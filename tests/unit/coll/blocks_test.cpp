// The algorithms of blocks of any size, with gaps between them, run in one process.
#include <gtest/gtest.h>

#include <algorithm>

#include "coll/algorithms.h"
#include "simulation.h"

namespace floe {
namespace {

constexpr Element kUntouched = -2;

// Elements that `from` sends to `to`: some none, and never the same both ways.
uint64_t uneven(uint32_t from, uint32_t to) { return (from * 5 + to * 3) % 7 * 2; }
// The same both ways.
uint64_t symmetric(uint32_t from, uint32_t to) { return (from + to) * 3 % 7; }

Data block(uint32_t from, uint32_t to, uint64_t count) {
  Data data(count);
  for (uint64_t i = 0; i < count; ++i) data[i] = value(from * 100 + to, i);
  return data;
}

// In reverse order, with a gap before each block that grows.
Blocks with_gaps(const std::vector<uint64_t>& counts) {
  Blocks blocks(counts.size());
  uint64_t next = 0;
  for (size_t i = counts.size(); i-- > 0;) {
    next += i + 1;
    blocks[i] = {next * sizeof(Element), counts[i] * sizeof(Element)};
    next += counts[i];
  }
  return blocks;
}

Data room_for(const Blocks& blocks) {
  uint64_t end = 0;
  for (const Block& b : blocks) end = std::max(end, b.offset + b.bytes);
  return Data(end / sizeof(Element) + 3, kUntouched);
}

void put(Data& buffer, const Block& at, const Data& data) {
  ASSERT_EQ(at.bytes, data.size() * sizeof(Element));
  std::copy(data.begin(), data.end(), buffer.begin() + static_cast<ptrdiff_t>(at.offset / sizeof(Element)));
}

template <class F>
std::vector<uint64_t> counts_of(uint32_t ranks, F&& count) {
  std::vector<uint64_t> counts(ranks);
  for (uint32_t i = 0; i < ranks; ++i) counts[i] = count(i);
  return counts;
}

// What all ranks' kRecv must be in the end, gaps included.
void expect_received(std::vector<RankState> states, const std::vector<Data>& wanted) {
  const auto ranks = static_cast<uint32_t>(states.size());
  Simulation simulation(std::move(states), ranks);
  ASSERT_TRUE(simulation.run()) << "a deadlock, or a message that nobody took";
  for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(simulation.rank(rank).recv, wanted[rank]) << rank;
}

class BlockAlgorithms : public testing::TestWithParam<uint32_t> {
 protected:
  const uint32_t ranks = GetParam();
  std::vector<RankState> states = std::vector<RankState>(ranks);
  std::vector<Data> wanted = std::vector<Data>(ranks);
};

TEST_P(BlockAlgorithms, AllGatherLeavesGapsAlone) {
  const Blocks to = with_gaps(counts_of(ranks, [](uint32_t i) { return uneven(i, 0); }));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const bool in_place = rank % 2 != 0;
    RankState& s = states[rank];
    s.schedule = all_gather(rank, to, in_place);
    s.recv = wanted[rank] = room_for(to);
    if (in_place)
      put(s.recv, to[rank], block(rank, 0, uneven(rank, 0)));
    else
      s.send = block(rank, 0, uneven(rank, 0));
    for (uint32_t i = 0; i < ranks; ++i) put(wanted[rank], to[i], block(i, 0, uneven(i, 0)));
  }
  expect_received(std::move(states), wanted);
}

TEST_P(BlockAlgorithms, ReduceScatterSumsBlocksOfAnySize) {
  const auto counts = counts_of(ranks, [](uint32_t i) { return uneven(0, i); });
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Blocks from = with_gaps(counts);
    states[rank].schedule = reduce_scatter(rank, from);
    states[rank].send = room_for(from);
    for (uint32_t i = 0; i < ranks; ++i) put(states[rank].send, from[i], block(rank, i, counts[i]));
    states[rank].recv.assign(counts[rank], kUntouched);
    wanted[rank].assign(counts[rank], 0);
    for (uint32_t source = 0; source < ranks; ++source) {
      const Data part = block(source, rank, counts[rank]);
      for (size_t i = 0; i < part.size(); ++i) wanted[rank][i] += part[i];
    }
  }
  expect_received(std::move(states), wanted);
}

TEST_P(BlockAlgorithms, AllToAllDeliversEveryPair) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Blocks from = with_gaps(counts_of(ranks, [&](uint32_t i) { return uneven(rank, i); }));
    const Blocks to = with_gaps(counts_of(ranks, [&](uint32_t i) { return uneven(i, rank); }));
    states[rank].schedule = all_to_all(rank, from, to, false);
    states[rank].send = room_for(from);
    states[rank].recv = wanted[rank] = room_for(to);
    for (uint32_t i = 0; i < ranks; ++i) {
      put(states[rank].send, from[i], block(rank, i, uneven(rank, i)));
      put(wanted[rank], to[i], block(i, rank, uneven(i, rank)));
    }
  }
  expect_received(std::move(states), wanted);
}

TEST_P(BlockAlgorithms, AllToAllInPlaceSwapsEveryPair) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Blocks to = with_gaps(counts_of(ranks, [&](uint32_t i) { return symmetric(i, rank); }));
    states[rank].schedule = all_to_all(rank, to, to, true);
    EXPECT_LE(states[rank].schedule.scratch_bytes(), 8 * 64u) << "more than 8 blocks of scratch";
    states[rank].recv = wanted[rank] = room_for(to);
    for (uint32_t i = 0; i < ranks; ++i) {
      put(states[rank].recv, to[i], block(rank, i, symmetric(rank, i)));
      put(wanted[rank], to[i], block(i, rank, symmetric(i, rank)));
    }
  }
  expect_received(std::move(states), wanted);
}

TEST_P(BlockAlgorithms, GatherAndScatterReachEveryRoot) {
  for (const uint32_t root : {0u, ranks - 1, ranks / 2}) {
    const Blocks blocks = with_gaps(counts_of(ranks, [](uint32_t i) { return uneven(i, 0); }));
    std::vector<RankState> gathering(ranks), scattering(ranks);
    std::vector<Data> gathered(ranks), scattered(ranks);
    gathering[root].recv = gathered[root] = scattering[root].send = room_for(blocks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Data mine = block(rank, 0, uneven(rank, 0));
      // Only the root has blocks: elsewhere touching them fails.
      const Blocks known = rank == root ? blocks : Blocks();
      gathering[rank].schedule = gather(rank, blocks[rank].bytes, known, root);
      gathering[rank].send = mine;
      put(gathered[root], blocks[rank], mine);
      scattering[rank].schedule = scatter(rank, known, blocks[rank].bytes, root);
      scattering[rank].recv.assign(mine.size(), kUntouched);
      put(scattering[root].send, blocks[rank], mine);
      scattered[rank] = mine;
    }
    expect_received(std::move(gathering), gathered);
    expect_received(std::move(scattering), scattered);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BlockAlgorithms, testing::Values(1, 2, 3, 4, 5, 7, 8, 13, 16, 33));

// Everybody's sends at once would meet everybody's receives: a rank has some exchanges under way at a time.
TEST(AllToAll, BoundsWhatIsUnderWay) {
  const uint32_t ranks = 40;
  const Blocks blocks = equal_blocks(ranks, 64);
  const Schedule schedule = all_to_all(3, blocks, blocks, false);
  const auto free_sends = std::count_if(schedule.steps().begin(), schedule.steps().end(), [](const Step& s) {
    return s.kind == Step::Kind::kSend && s.needs.empty();
  });
  EXPECT_EQ(free_sends, 8);
}

TEST(Scratch, ThatNoMemoryHoldsIsRefused) {
  Schedule schedule;
  EXPECT_THROW(schedule.scratch(UINT64_MAX), std::bad_alloc);
  const Blocks huge(9, Block{0, uint64_t{1} << 62});
  EXPECT_THROW(reduce_scatter(0, huge), std::bad_alloc);
  EXPECT_THROW(all_to_all(0, huge, huge, true), std::bad_alloc);
}

}  // namespace
}  // namespace floe
