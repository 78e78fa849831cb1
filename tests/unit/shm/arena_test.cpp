#include "shm/arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "shm/heap.h"

namespace floe {
namespace {

using testing::HasSubstr;

UniqueFd duplicate(const Arena& arena) { return UniqueFd(::fcntl(arena.fd(), F_DUPFD_CLOEXEC, 0)); }

// Bytes of the host's memory that it takes.
uint64_t used(const Arena& arena) {
  struct stat info {};
  EXPECT_EQ(0, ::fstat(arena.fd(), &info));
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

TEST(Arena, TakesMemoryOnlyWhileItIsInUse) {
  auto arena = Arena::create(1);
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  EXPECT_EQ(nullptr, (*arena)->base()) << "no addresses before they are needed";
  {
    Heap heap(*arena);
    auto first = heap.allocate(1 << 20), second = heap.allocate(1 << 20);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(0u, used(**arena));
    for (void* memory : {*first, *second}) std::fill_n(static_cast<char*>(memory), 1 << 20, 'x');
    EXPECT_EQ(2u << 20, used(**arena));
    EXPECT_TRUE(heap.free(*first).ok());
    EXPECT_EQ(1u << 20, used(**arena));
  }
  EXPECT_EQ(0u, used(**arena)) << "gone with the heap, though a peer may still map the arena";
}

TEST(Arena, APeersIsOneMappingForAllCommunicators) {
  auto own = Arena::create(2);
  ASSERT_TRUE(own.ok());
  // Under another id it is as if another process had sent it.
  auto peer = Arena::attach(duplicate(**own), 3, (*own)->bytes());
  ASSERT_TRUE(peer.ok()) << peer.status().message();
  auto again = Arena::attach(duplicate(**own), 3, (*own)->bytes());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*peer, *again);
  auto thread = Arena::attach(duplicate(**own), 2, (*own)->bytes());
  ASSERT_TRUE(thread.ok());
  EXPECT_EQ(*own, *thread);

  Heap heap(*own);
  auto memory = heap.allocate(100);
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE((*peer)->map().ok());
  EXPECT_NE((*peer)->base(), (*own)->base());
  *(*peer)->base() = std::byte{7};  // the first allocation is at the start
  EXPECT_EQ(7, *static_cast<char*>(*memory));
}

// It has the objects of its parent, but none of the mappings.
TEST(Arena, IsMappedAnewInAForkedChild) {
  auto own = Arena::create(10);
  ASSERT_TRUE(own.ok());
  auto peer = Arena::attach(duplicate(**own), 11, (*own)->bytes());
  ASSERT_TRUE(peer.ok() && (*peer)->map().ok());
  EXPECT_EXIT(
      {
        auto again = Arena::attach(duplicate(**own), 11, (*own)->bytes());
        if (again.ok() && (*again)->map().ok()) *(*again)->base() = std::byte{1};
        std::_Exit(static_cast<int>(*(*again)->base()));
      },
      testing::ExitedWithCode(1), "");
}

TEST(Arena, RefusesAWrongSizeOrUnsealedMemory) {
  auto own = Arena::create(4);
  ASSERT_TRUE(own.ok());
  EXPECT_THAT(Arena::attach(duplicate(**own), 5, (*own)->bytes() - 4096).status().message(),
              HasSubstr("sealed memfd"));
  EXPECT_THAT(Arena::attach(duplicate(**own), 6, 0).status().message(), HasSubstr("sealed memfd"));
  EXPECT_THAT(Arena::attach(duplicate(**own), 4, 4096).status().message(), HasSubstr("4096"));
  UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(0, ::ftruncate(unsealed.get(), 4096));
  EXPECT_THAT(Arena::attach(std::move(unsealed), 7, 4096).status().message(), HasSubstr("sealed memfd"));
}

TEST(Arena, KnowsWhatLiesInIt) {
  auto own = Arena::create(8);
  ASSERT_TRUE(own.ok());
  Arena& arena = **own;
  EXPECT_FALSE(arena.contains(nullptr, 0));
  ASSERT_TRUE(arena.map().ok());
  const std::byte* const begin = arena.base();
  EXPECT_TRUE(arena.contains(begin, arena.bytes()));
  EXPECT_FALSE(arena.contains(begin, arena.bytes() + 1));
  EXPECT_FALSE(arena.contains(begin + 1, arena.bytes()));
  EXPECT_FALSE(arena.contains(begin + 1, UINT64_MAX));
  EXPECT_FALSE(arena.contains(begin - 1, 1));
  EXPECT_TRUE(arena.overlaps(reinterpret_cast<uintptr_t>(begin) - 1, 2));
  EXPECT_FALSE(arena.overlaps(reinterpret_cast<uintptr_t>(begin) - 1, 1));
  EXPECT_FALSE(arena.overlaps(reinterpret_cast<uintptr_t>(begin) + arena.bytes(), 1));
}

// `own`, its heap, and how another process sees it.
struct Shared {
  std::shared_ptr<Arena> own = *Arena::create(20);
  Heap heap{own};
  std::shared_ptr<Arena> peer = *Arena::attach(duplicate(*own), 21, own->bytes());

  char* allocate(uint64_t bytes) { return static_cast<char*>(*heap.allocate(bytes)); }
  char& seen_by_peer(const char* memory) const {
    EXPECT_TRUE(peer->map().ok());
    return *reinterpret_cast<char*>(peer->base() + (memory - reinterpret_cast<char*>(own->base())));
  }
};

TEST(Arena, FencedPagesAreOutOfAPeersReach) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  Shared shared;
  char* const data = shared.allocate(4 * page);
  std::fill_n(data, 4 * page, 'x');
  ASSERT_TRUE(shared.own->fence(data + page + 9, page).ok());
  for (const uint64_t at : {page, 2 * page, 3 * page - 1}) shared.seen_by_peer(data + at) = 'y';
  EXPECT_EQ(data + 3 * page, std::find_if(data + page, data + 3 * page, [](char c) { return c != 'x'; }));
  for (const uint64_t at : {page - 1, 3 * page}) {
    shared.seen_by_peer(data + at) = 'z';
    EXPECT_EQ('z', data[at]) << "the pages beside it";
  }
  EXPECT_FALSE(shared.own->contains(data, page + 1));
  EXPECT_TRUE(shared.own->contains(data, page));
  EXPECT_TRUE(shared.own->contains(data + 3 * page, page));
  EXPECT_DEATH(data[page] = 0, "") << "absent from forked children";
}

// What a peer may still write to is given to nobody again.
TEST(Arena, FencedPagesAreNotUsedAgain) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  Shared shared;
  char* const data = shared.allocate(2 * page);
  char* const other = shared.allocate(page);
  ASSERT_TRUE(shared.own->fence(data, 1).ok());
  *data = 'x';
  ASSERT_TRUE(shared.heap.free(data).ok());
  EXPECT_DEATH(*data = 0, "") << "use after free";
  shared.seen_by_peer(data) = 'y';
  char* const next = shared.allocate(page);
  EXPECT_GT(next, other);
  EXPECT_EQ(0, *next);
}

// Other threads use the rest of its pages: what they write is neither lost nor late.
TEST(Arena, AFenceLosesNoThreadsWrites) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (int turn = 0; turn < 200; ++turn) {
    Shared shared;
    auto* const counter = reinterpret_cast<std::atomic<uint64_t>*>(shared.allocate(page));
    std::atomic<bool> started{false}, end{false};
    std::thread writer([&] {
      for (uint64_t n = 1; !end; ++n) {
        EXPECT_EQ(n - 1, counter->fetch_add(1));
        started = true;
      }
    });
    while (!started) std::this_thread::yield();
    ASSERT_TRUE(shared.own->fence(counter + 1, 1).ok());
    end = true;
    writer.join();
  }
}

// A file beyond RLIMIT_FSIZE would end the process by a signal.
TEST(Arena, FitsTheLimitsOfTheProcess) {
  rlimit before{};
  ASSERT_EQ(0, ::getrlimit(RLIMIT_FSIZE, &before));
  const rlimit limit{1 << 20, before.rlim_max};
  ASSERT_EQ(0, ::setrlimit(RLIMIT_FSIZE, &limit));
  auto arena = Arena::create(9);
  ASSERT_EQ(0, ::setrlimit(RLIMIT_FSIZE, &before));
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  Heap heap(*arena);
  EXPECT_TRUE(heap.allocate(1 << 20).ok());
  EXPECT_THAT(heap.allocate(1).status().message(), HasSubstr("not free"));
}

}  // namespace
}  // namespace floe
