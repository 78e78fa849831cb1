// floe_mem_*: memory that works as any other, and misuse that is refused.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "exercise.h"

namespace floe::test {
namespace {

floe_context_info_t info_of(floe_context_t* context) {
  floe_context_info_t info = FLOE_CONTEXT_INFO_INIT;
  EXPECT_FLOE_OK(floe_context_info(context, &info));
  return info;
}

class Memory : public testing::Test {
 protected:
  Memory() { EXPECT_FLOE_OK(floe_context_create(nullptr, &context_)); }
  ~Memory() override {
    if (context_) {
      EXPECT_FLOE_OK(floe_context_destroy(context_));
    }
  }

  void* allocate(uint64_t bytes) {
    void* memory = nullptr;
    EXPECT_FLOE_OK(floe_mem_alloc(context_, bytes, &memory));
    return memory;
  }

  floe_context_t* context_ = nullptr;
};

TEST_F(Memory, IsZeroedAlignedAndWritable) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{100'000}, size_t{16} << 20}) {
    auto* const memory = static_cast<unsigned char*>(allocate(bytes));
    ASSERT_NE(nullptr, memory);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(memory) % static_cast<size_t>(sysconf(_SC_PAGESIZE)));
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(0, memory[i]);
    std::memset(memory, 0xff, bytes);
    EXPECT_EQ(bytes, info_of(context_).allocated_bytes);
    EXPECT_FLOE_OK(floe_mem_free(context_, memory));
  }
  EXPECT_EQ(0u, info_of(context_).allocations);
}

TEST_F(Memory, RefusesMisuse) {
  void* none = nullptr;
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_alloc(context_, 0, &none));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_alloc(context_, 1, nullptr));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_alloc(nullptr, 1, &none));
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 4096, uint64_t{1} << 60})
    EXPECT_EQ(FLOE_ERR_SYSTEM, floe_mem_alloc(context_, bytes, &none)) << bytes;
  EXPECT_EQ(nullptr, none);

  auto* const memory = static_cast<char*>(allocate(10'000));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_free(context_, memory + 1)) << "not its start";
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_unregister(context_, memory)) << "allocated, not registered";
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, memory + 100, 1)) << "known already";
  EXPECT_FLOE_OK(floe_mem_free(context_, memory));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_free(context_, memory)) << "twice";
  EXPECT_FLOE_OK(floe_mem_free(context_, nullptr));

  std::vector<char> own(100);
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_free(context_, own.data())) << "not floe's";
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, nullptr, 1));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, own.data(), 0));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, own.data(), UINT64_MAX));
  ASSERT_FLOE_OK(floe_mem_register(context_, own.data() + 10, 20));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, own.data(), 11)) << "overlaps at the end";
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, own.data() + 29, 5)) << "overlaps at the start";
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, own.data() + 15, 2)) << "lies within";
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_free(context_, own.data() + 10)) << "registered, not allocated";
  ASSERT_FLOE_OK(floe_mem_register(context_, own.data() + 30, 5)) << "right behind";
  EXPECT_EQ(2u, info_of(context_).registrations);
  EXPECT_EQ(25u, info_of(context_).registered_bytes);
  EXPECT_FLOE_OK(floe_mem_unregister(context_, own.data() + 10));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_unregister(context_, own.data() + 10)) << "twice";
  EXPECT_FLOE_OK(floe_mem_unregister(context_, own.data() + 30));
}

// What a peer, or a program that uses it once more, could find there.
TEST_F(Memory, IsZeroedAgainAndGoneMeanwhile) {
  constexpr size_t kBytes = 1 << 20;
  void* const first = allocate(kBytes);
  std::memset(first, 0xff, kBytes);
  ASSERT_FLOE_OK(floe_mem_free(context_, first));
  EXPECT_DEATH(*static_cast<volatile char*>(first) = 1, "");
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, first, kBytes)) << "not the caller's to register";
  auto* const again = static_cast<unsigned char*>(allocate(kBytes));
  ASSERT_EQ(first, again) << "the first place that is free";
  for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(0, again[i]);
  EXPECT_FLOE_OK(floe_mem_free(context_, again));
}

TEST_F(Memory, FreedPiecesJoin) {
  constexpr size_t kPage = 4096;
  std::vector<char*> pieces;
  for (int i = 0; i < 6; ++i) pieces.push_back(static_cast<char*>(allocate(kPage)));
  for (const int i : {1, 3, 2, 0}) EXPECT_FLOE_OK(floe_mem_free(context_, pieces[i]));
  EXPECT_EQ(pieces[0], allocate(4 * kPage));
  EXPECT_FLOE_OK(floe_mem_free(context_, pieces[5]));
  EXPECT_EQ(pieces[5], allocate(100 * kPage)) << "joined with all that was never used";
}

TEST_F(Memory, RegistersOnlyWhatIsMapped) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(MAP_FAILED, pages);
  ASSERT_EQ(0, munmap(static_cast<char*>(pages) + page, page));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_register(context_, pages, page + 1));
  EXPECT_NE(std::string::npos, std::string(floe_last_error()).find("mapped")) << floe_last_error();
  EXPECT_FLOE_OK(floe_mem_register(context_, pages, page));
  EXPECT_FLOE_OK(floe_mem_unregister(context_, pages));
  EXPECT_EQ(0, munmap(pages, page));
}

TEST_F(Memory, OfAnotherContextIsUnknown) {
  floe_context_t* other = nullptr;
  ASSERT_FLOE_OK(floe_context_create(nullptr, &other));
  void* const memory = allocate(100);
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_mem_free(other, memory));
  EXPECT_FLOE_OK(floe_context_destroy(other));
  EXPECT_FLOE_OK(floe_mem_free(context_, memory));
}

TEST_F(Memory, GoesWithTheContext) {
  void* const memory = allocate(4096);
  ASSERT_EQ(0, msync(memory, 4096, MS_ASYNC)) << "mapped";
  ASSERT_FLOE_OK(floe_context_destroy(context_));
  context_ = nullptr;
  EXPECT_NE(0, msync(memory, 4096, MS_ASYNC));
}

TEST(MemoryInUse, WorksInCollectives) {
  run_ranks(3, [](Rank& r) {
    constexpr size_t kCount = 200'000;
    void* memory = nullptr;
    ASSERT_FLOE_OK(floe_mem_alloc(r.context, kCount * sizeof(float), &memory));
    auto* const data = static_cast<float*>(memory);
    for (size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(r.rank);
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, data, kCount, FLOE_FLOAT32, FLOE_SUM, nullptr));
    EXPECT_EQ(3.0f, data[0]);
    EXPECT_EQ(3.0f, data[kCount - 1]);
    EXPECT_FLOE_OK(floe_mem_free(r.context, memory));
  });
}

// Whoever has such buffers, around the sizes from which on they are used without copies.
TEST(MemoryInUse, GivesTheOraclesResultWhoeverHasIt) {
  for (const uint32_t ranks : {2, 3, 5})
    run_ranks(ranks, [](Rank& r) {
      constexpr uint64_t kBytes[] = {64 << 10, (64 << 10) + 48, 1 << 20, kSanitized ? 1'500'000 : 3 << 20};
      constexpr floe_op_t kOps[] = {FLOE_SUM, FLOE_AVG, FLOE_MAX, FLOE_PRODUCT, FLOE_BOR};
      uint64_t seed = 1;
      for (const auto type : all_types())
        for (const uint64_t who : {~uint64_t{0}, uint64_t{1}, ~uint64_t{2}, ~uint64_t{0}}) {
          const uint64_t pick = seed * 0x9e3779b97f4a7c15 >> 32;  // the same on all ranks
          const auto op = std::find_if(std::begin(kOps) + pick % 4, std::end(kOps),
                                       [&](floe_op_t o) { return supported(type, o); });
          const Shape shape = {.type = type,
                               .op = op == std::end(kOps) ? FLOE_SUM : *op,
                               .count = kBytes[pick / 4 % 4] / element_size(type),
                               .in_place = pick / 16 % 2 == 0,
                               .misalign = pick % 3 == 0 ? pick / 32 % 64 : 0,
                               .allocated = (who >> r.rank & 1) != 0};
          Exercise(r, shape, seed++).run();
        }
    });
}

// The model may find another protocol faster than the one that buffers without copies go with.
TEST(MemoryInUse, GivesTheOraclesResultWhereNobodyTakesTheReturnLine) {
  setenv("FLOE_COST_MODEL", "return_line=1000000,return_line_kib=1000000", 1);
  run_ranks(3, [](Rank& r) {
    uint64_t seed = 1;
    for (const uint64_t count : {20'000, 300'000})
      for (const uint32_t without : {0u, 1u, r.size})
        Exercise(r, {.count = count, .in_place = true, .allocated = r.rank != without}, seed++).run();
  });
  unsetenv("FLOE_COST_MODEL");
}

TEST(MemoryInUse, ServesAllCommunicatorsOfTheContext) {
  run_ranks(4, [](Rank& r) {
    floe_comm_t* half = nullptr;
    ASSERT_FLOE_OK(floe_comm_split(r.comm, static_cast<int32_t>(r.rank % 2), 0, &half));
    const Rank of_half = described(r, half);
    for (uint64_t seed = 1; seed < 20; ++seed) {
      Exercise(r, {.count = 40'000, .allocated = true}, seed).run();
      Exercise(of_half, {.count = 30'000, .allocated = true}, seed).run();
    }
    EXPECT_FLOE_OK(floe_comm_destroy(half));
    Exercise(r, {.count = 40'000, .allocated = true}, 20).run();
  });
}

// Peers write to this rank's buffers: not any more once abort has returned, wherever they were.
TEST(MemoryInUse, DoesNotChangeAfterAbort) {
  constexpr uint64_t kCount = (kSanitized ? 8 : 32) << 18;
  uint32_t interrupted = 0;
  bool mapped = false;
  for (int turn = 0; turn < 30; ++turn)
    run_ranks(2, [&](Rank& r) {
      floe_comm_info_t info = FLOE_COMM_INFO_INIT;
      ASSERT_FLOE_OK(floe_comm_info(r.comm, &info));
      if (r.rank == 0) mapped = info.direct != 0;
      void* memory = nullptr;
      ASSERT_FLOE_OK(floe_mem_alloc(r.context, kCount * sizeof(float), &memory));
      auto* const data = static_cast<float*>(memory);
      std::fill_n(data, kCount, 1.0f);
      ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
      if (r.rank == 1) {
        EXPECT_EQ(FLOE_ERR_ABORTED,
                  floe_all_reduce(r.comm, FLOE_IN_PLACE, data, kCount, FLOE_FLOAT32, FLOE_SUM, nullptr));
        return;
      }
      Request request;
      ASSERT_FLOE_OK(
          floe_all_reduce(r.comm, FLOE_IN_PLACE, data, kCount, FLOE_FLOAT32, FLOE_SUM, request.out()));
      std::this_thread::sleep_for(std::chrono::microseconds(137 * turn));
      ASSERT_FLOE_OK(floe_comm_abort(r.comm));
      // The sums that rank 1 has written are in order, from its part's start.
      const auto sums = [&] { return std::count(data + kCount / 2, data + kCount, 2.0f); };
      const auto before = sums();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(before, sums());
      interrupted += before > 0 && before < static_cast<ptrdiff_t>(kCount / 2);
    });
  EXPECT_TRUE(interrupted > 0 || !mapped) << "no abort came while a peer wrote: the test has shown nothing";
}

}  // namespace
}  // namespace floe::test
