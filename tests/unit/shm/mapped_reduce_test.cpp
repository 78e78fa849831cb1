// all_reduce of buffers that peers map, with ranks as threads.
#include "shm/mapped_reduce.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "base/types.h"
#include "shm/direct.h"
#include "shm/heap.h"

namespace floe {
namespace {

constexpr uint64_t kLeast = (64 << 10) / sizeof(int32_t);

// What the ranks of one communicator have.
struct Ranks {
  // With `views` each rank has mappings of its own of its peers' arenas, as processes do.
  explicit Ranks(uint32_t size, bool views = false) {
    static std::atomic<uint64_t> next{1};
    for (uint32_t rank = 0; rank < size; ++rank) {
      segments.push_back(*Segment::create(size, rank, next++));
      arenas.push_back(*Arena::create(next++));
      heaps.push_back(std::make_unique<Heap>(arenas.back()));
    }
    for (uint32_t rank = 0; rank < size; ++rank) {
      auto seen = arenas;
      for (uint32_t peer = 0; views && peer < size; ++peer) {
        UniqueFd fd(::fcntl(arenas[peer]->fd(), F_DUPFD_CLOEXEC, 0));
        if (peer != rank) seen[peer] = *Arena::attach(std::move(fd), next++, arenas[peer]->bytes());
      }
      paths.push_back(std::make_unique<DirectPath>(segments, rank,
                                                   Choices(static_cast<uint32_t>(segments.size())), seen));
    }
  }
  int32_t* allocate(uint32_t rank, uint64_t count) {
    auto memory = heaps[rank]->allocate(count * sizeof(int32_t));
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    return static_cast<int32_t*>(*memory);
  }
  void run(const std::function<void(uint32_t)>& body) const {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < segments.size(); ++rank) threads.emplace_back(body, rank);
    for (auto& thread : threads) thread.join();
  }
  DirectOperation all_reduce(uint32_t rank, const int32_t* send, int32_t* recv, uint64_t count,
                             uint32_t hash = 5) const {
    return paths[rank]->make({pattern::kAllReduce, send, recv, count, FLOE_INT32, FLOE_SUM, 0, hash});
  }

  std::vector<std::shared_ptr<Segment>> segments;
  std::vector<std::shared_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<Heap>> heaps;
  std::vector<std::unique_ptr<DirectPath>> paths;
};

Poll finish(DirectOperation& op) {
  while (true) {
    const Poll poll = op.poll();
    if (poll != Poll::kMoved && poll != Poll::kPending) return poll;
    if (poll == Poll::kPending) std::this_thread::yield();
  }
}

class MappedReduceTest : public testing::TestWithParam<std::tuple<uint32_t, bool>> {};

// All ranks have buffers that can be mapped, some or none of them, in any order; in place or not, of any
// size.
TEST_P(MappedReduceTest, SumsWhoeverOffers) {
  const auto [size, views] = GetParam();
  Ranks ranks(size, views);
  const uint64_t most = uint64_t{3} * size * MappedReduce::kSliceBytes / sizeof(int32_t);
  ranks.run([&, size = size](uint32_t self) {
    std::mt19937_64 random(20261121);  // the same on all ranks
    int32_t* const mapped[] = {ranks.allocate(self, most), ranks.allocate(self, most)};
    std::vector<int32_t> ordinary[] = {std::vector<int32_t>(most), std::vector<int32_t>(most)};
    for (uint64_t round = 0; round < 60; ++round) {
      const uint64_t count = round % 3 == 0 ? kLeast + random() % 99 : kLeast + random() % (most - kLeast);
      const uint64_t who = round % 2 == 0 ? ~uint64_t{0} : random();  // offers, a bit for each rank
      const uint64_t in_place = random();
      const auto own_buffer = [&](int index) {
        return (who >> self & 1) != 0 ? mapped[index] : ordinary[index].data();
      };
      int32_t* const recv = own_buffer(0);
      int32_t* const send = (in_place >> self & 1) != 0 ? recv : own_buffer(1);
      const auto value = [&](uint64_t rank, uint64_t i) {
        return static_cast<int32_t>(rank * 1000 + round * 7 + i % 997);
      };
      for (uint64_t i = 0; i < count; ++i) send[i] = value(self, i);
      auto op = ranks.all_reduce(self, send, recv, count);
      ASSERT_EQ(Poll::kDone, finish(op));
      for (uint64_t i = 0; i < count; ++i) {
        int32_t sum = 0;
        for (uint64_t rank = 0; rank < size; ++rank) sum += value(rank, i);
        ASSERT_EQ(sum, recv[i]) << "round " << round << " element " << i << " of " << count;
        ASSERT_TRUE(send == recv || send[i] == value(self, i));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, MappedReduceTest, testing::Combine(testing::Values(2, 3, 5), testing::Bool()),
                         [](const auto& info) {
                           return fmt::format("{}Ranks{}", std::get<0>(info.param),
                                              std::get<1>(info.param) ? "WithViews" : "");
                         });

TEST(MappedReduce, CopiesNothingWhereAllOfferAndOnlyThere) {
  Ranks ranks(2);
  uint64_t made = 0;  // operations, of one chunk each
  const auto copies = [&](bool first, bool second, uint64_t count) {
    ranks.run([&](uint32_t self) {
      std::vector<int32_t> own(count, 1);
      int32_t* const data = (self == 0 ? first : second) ? ranks.allocate(self, count) : own.data();
      auto op = ranks.all_reduce(self, data, data, count);
      EXPECT_EQ(Poll::kDone, finish(op));
    });
    return Flag::counter(ranks.segments[0]->header().put.load()) == ++made;
  };
  EXPECT_FALSE(copies(true, true, kLeast));
  EXPECT_TRUE(copies(true, false, kLeast));
  EXPECT_TRUE(copies(false, true, kLeast));
  EXPECT_TRUE(copies(false, false, kLeast));
  EXPECT_TRUE(copies(true, true, kLeast - 1)) << "too small to pay";
  EXPECT_FALSE(copies(true, true, kLeast));
  EXPECT_FALSE(copies(true, true, kLeast));
}

TEST(MappedReduce, OfTwoBuffersIsForLargerOnes) {
  for (const bool large : {false, true}) {
    Ranks ranks(2);
    const uint64_t count = (1 << 20) / sizeof(int32_t) - (large ? 0 : 1);
    ranks.run([&](uint32_t self) {
      auto op = ranks.all_reduce(self, ranks.allocate(self, count), ranks.allocate(self, count), count);
      EXPECT_EQ(Poll::kDone, finish(op));
    });
    const uint64_t chunk = 2 * SegmentLayout(2).block_bytes, bytes = count * sizeof(int32_t);
    EXPECT_EQ(large ? 0 : (bytes + chunk - 1) / chunk, Flag::counter(ranks.segments[0]->header().put.load()));
  }
}

TEST(MappedReduce, DifferentHashesAreAMismatch) {
  for (const bool all_offer : {true, false}) {
    Ranks ranks(2);
    ranks.run([&](uint32_t self) {
      std::vector<int32_t> own(kLeast);
      int32_t* const data = all_offer || self == 0 ? ranks.allocate(self, kLeast) : own.data();
      auto op = ranks.all_reduce(self, data, data, kLeast, 5 + self);
      // A rank that has put waits for the other's chunk, which never comes: the group tells it.
      if (!all_offer && self == 1) return (void)op.poll();
      EXPECT_EQ(Poll::kMismatch, finish(op));
      EXPECT_EQ(1 - self, op.mismatch_with());
    });
  }
}

// Hashes are short, and may be the same by accident.
TEST(MappedReduce, DifferentSizesAreAMismatch) {
  Ranks ranks(2);
  ranks.run([&](uint32_t self) {
    int32_t* const data = ranks.allocate(self, kLeast + self);
    auto op = ranks.all_reduce(self, data, data, kLeast + self);
    EXPECT_EQ(Poll::kMismatch, finish(op));
  });
}

// An offer comes from another process: nothing outside of its arena is ever touched.
TEST(MappedReduce, RefusesAnOfferBeyondTheArena) {
  const uint64_t end = (*Arena::create(0))->bytes();
  for (const uint64_t offset : {end, end - 1, UINT64_MAX, UINT64_MAX - kLeast}) {
    Ranks ranks(2);
    int32_t* const data = ranks.allocate(0, kLeast);
    auto op = ranks.all_reduce(0, data, data, kLeast);
    EXPECT_EQ(Poll::kMoved, op.poll());
    SegmentHeader& peer = ranks.segments[1]->header();
    peer.offered_recv.store(offset);
    peer.offered_bytes.store(ranks.segments[0]->header().offered_bytes.load());
    peer.offer.store(ranks.segments[0]->header().offer.load());
    EXPECT_EQ(Poll::kInvalid, finish(op));
    EXPECT_EQ(1u, op.mismatch_with());
    EXPECT_FALSE(ranks.paths[1]->is_touching(0));
  }
}

// What Group relies on when it ends an operation.
TEST(MappedReduce, TouchesNothingOnceARankHasEnded) {
  Ranks ranks(3);
  constexpr uint64_t kCount = 3 * MappedReduce::kSliceBytes;  // some slices for each rank
  std::vector<int32_t*> data;
  std::vector<DirectOperation> ops;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    data.push_back(ranks.allocate(rank, kCount));
    std::fill_n(data[rank], kCount, 1);
    ops.push_back(ranks.all_reduce(rank, data[rank], data[rank], kCount));
  }
  for (auto& op : ops) op.poll();
  EXPECT_EQ(Poll::kMoved, ops[0].poll());
  EXPECT_EQ(3, data[2][0]) << "a slice";
  EXPECT_FALSE(ops[0].waits_for(2));

  ranks.segments[2]->header().state.store(static_cast<uint32_t>(RankState::kFailed));
  const std::vector<int32_t> before(data[2], data[2] + kCount);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Poll::kPending, ops[0].poll());
    EXPECT_EQ(Poll::kPending, ops[1].poll());
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), data[2]));
  EXPECT_TRUE(ops[0].waits_for(2) && ops[1].waits_for(2));
  EXPECT_FALSE(ops[0].waits_for(1));
  EXPECT_FALSE(ranks.paths[2]->is_touching(0) || ranks.paths[2]->is_touching(1));
}

// Rank 1, of another process, has begun to write a slice, and stops there.
TEST(MappedReduce, FencesOffTheSliceThatAPeerIsAt) {
  Ranks ranks(2, true);
  constexpr uint64_t kCount = MappedReduce::kSliceBytes, kSlice = MappedReduce::kSliceBytes / sizeof(int32_t);
  int32_t* const data = ranks.allocate(0, kCount);  // 2 slices for each rank
  const Arena& arena = *ranks.arenas[0];
  auto op = ranks.all_reduce(0, data, data, kCount);
  op.poll();
  EXPECT_TRUE(op.fence(1).ok());
  EXPECT_TRUE(arena.contains(data, kCount * sizeof(int32_t))) << "it does not touch";
  ranks.segments[1]->header().touching = 2;
  EXPECT_TRUE(op.fence(1).ok());
  EXPECT_TRUE(arena.contains(data, 3 * kSlice * sizeof(int32_t)));
  EXPECT_FALSE(arena.contains(data + 3 * kSlice, 1));
  EXPECT_FALSE(arena.contains(data + 4 * kSlice - 1, 1));
  ranks.segments[1]->header().touching = UINT32_MAX;
  EXPECT_TRUE(op.fence(1).ok()) << "nonsense is harmless";
}

// What peers have written to pages that are fenced meanwhile does not arrive.
TEST(MappedReduce, OfPagesThatAreFencedIsAnError) {
  Ranks ranks(2, true);
  ranks.run([&](uint32_t self) {
    int32_t* const data = ranks.allocate(self, kLeast);
    auto op = ranks.all_reduce(self, data, data, kLeast);
    op.poll();
    if (self == 0) {
      EXPECT_TRUE(ranks.arenas[0]->fence(data, 1).ok());
    }
    EXPECT_EQ(self == 0 ? Poll::kInvalid : Poll::kDone, finish(op));
    EXPECT_TRUE(self == 1 || op.mismatch_with() == 0);
    auto next = ranks.all_reduce(self, data, data, kLeast);  // which copies
    EXPECT_EQ(Poll::kDone, finish(next));
  });
}

TEST(MappedReduce, WaitsForTheRanksThatHaveNotCome) {
  Ranks ranks(3);
  int32_t* const data = ranks.allocate(0, kLeast);
  auto op = ranks.all_reduce(0, data, data, kLeast);
  std::vector<int32_t> ordinary(kLeast);
  auto other = ranks.all_reduce(1, ordinary.data(), ordinary.data(), kLeast);
  EXPECT_EQ(Poll::kMoved, op.poll()) << "the offer: sleepers are to be woken";
  EXPECT_TRUE(op.waits_for(1) && op.waits_for(2));
  other.poll();
  op.poll();
  EXPECT_FALSE(op.waits_for(1));
  EXPECT_TRUE(op.waits_for(2));
}

}  // namespace
}  // namespace floe
