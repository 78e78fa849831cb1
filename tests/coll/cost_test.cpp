// What floe costs when it does nothing, and that communicators leave nothing behind.
#include <malloc.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "exercise.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

size_t entries(const char* folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) count += !entry.path().empty();
  return count;
}

// Of floe's memfds: segments, bell pages.
size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:floe") != line.npos;
  return count;
}

// Their bytes: a segment that several ranks of this process use is mapped once.
size_t shared_bytes() {
  std::ifstream maps("/proc/self/maps");
  size_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:floe") == line.npos) continue;
    size_t dash = 0;
    const uint64_t begin = std::stoull(line, &dash, 16);
    bytes += std::stoull(line.substr(dash + 1), nullptr, 16) - begin;
  }
  return bytes;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Resources {
  size_t descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task"), maps = mappings();
  size_t heap = mallinfo2().uordblks;  // what malloc has given and has not got back
  bool operator==(const Resources& other) const {
    return descriptors == other.descriptors && threads == other.threads && maps == other.maps;
  }
};

void PrintTo(const Resources& r, std::ostream* out) {
  *out << r.descriptors << " descriptors, " << r.threads << " threads, " << r.maps << " mappings";
}

// A thousand of them, through a store and through splits of a parent.
TEST(Cost, AThousandCommunicatorsLeaveNothing) {
  constexpr int kTurns = kSanitized ? 50 : 500;
  MemoryStore store;
  run_ranks(2, [&](Rank& r) {
    const auto make_two = [&] {
      floe_comm_t* made = create_comm(r.context, r.rank, r.size, "one-of-many", store);
      ASSERT_NE(nullptr, made);
      Exercise({r.context, made, r.rank, r.size}, {.count = 10}, 1).run();
      EXPECT_FLOE_OK(floe_comm_destroy(made));
      floe_comm_t* child = nullptr;
      ASSERT_FLOE_OK(floe_comm_split(r.comm, 0, 0, &child));
      Exercise({r.context, child, r.rank, r.size}, {.count = 10}, 1).run();
      EXPECT_FLOE_OK(floe_comm_destroy(child));
    };
    for (int turn = 0; turn < 20; ++turn)
      make_two();  // what is opened once and kept, and lists of free memory
    // One rank counts, while the others wait: what a second one opens to count would be counted too.
    const auto counted = [&] {
      EXPECT_FLOE_OK(floe_barrier(r.comm, nullptr));
      const auto resources = r.rank == 0 ? std::optional<Resources>(std::in_place) : std::nullopt;
      EXPECT_FLOE_OK(floe_barrier(r.comm, nullptr));
      return resources;
    };
    const auto before = counted();
    for (int turn = 0; turn < kTurns && !testing::Test::HasFatalFailure(); ++turn) make_two();
    const auto after = counted();
    EXPECT_EQ(before, after);
    constexpr size_t kBytesEach = 50;  // less than anything of a communicator's that is forgotten
    if (before) {
      EXPECT_LE(after->heap, before->heap + kBytesEach * 2 * kTurns);
    }
  });
  EXPECT_EQ(0u, store.keys());
}

// The whole of it: flags, slots, rings, outbox, bells.
TEST(Cost, FourMebibytesOfSharedMemoryForEachRank) {
  for (const uint32_t ranks : {2, 3, 5, 8})
    run_ranks(ranks, [](Rank& r) {
      ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
      if (r.rank == 0) {
        EXPECT_LE(shared_bytes(), r.size * (size_t{4} << 20)) << r.size;
        EXPECT_GT(shared_bytes(), size_t{1} << 20) << "else nothing has been measured";
      }
      ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
    });
}

// The worker and the communicator are there; nobody asks for anything.
TEST(Cost, NoCpuWhileIdle) {
  run_ranks(2,
            [](Rank& r) {
              Exercise(r, {.count = 100'000}, 1).run();
              ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
              std::this_thread::sleep_for(100ms);  // the worker falls asleep
              const double before = cpu_seconds();
              std::this_thread::sleep_for(3s);
              EXPECT_LT(cpu_seconds() - before, kSanitized ? 0.1 : 0.008);
              std::this_thread::sleep_for(200ms);  // the other rank still measures
            },
            {.workers = 1});
}

// A wait for a peer that does not come sleeps: it wakes some times a second to look for trouble.
TEST(Cost, LittleCpuWhileWaiting) {
  run_ranks(2, [](Rank& r) {
    if (r.rank == 1) {
      std::this_thread::sleep_for(100ms);
      const double before = cpu_seconds();
      std::this_thread::sleep_for(1s);
      EXPECT_LT(cpu_seconds() - before, kSanitized ? 0.3 : 0.05);
    }
    EXPECT_FLOE_OK(floe_barrier(r.comm, nullptr));
  });
}

}  // namespace
}  // namespace floe::test
