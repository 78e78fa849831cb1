// What floe costs when it does nothing, and that communicators leave nothing behind.
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
  bool operator==(const Resources&) const = default;
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
    make_two();  // what is opened once and kept
    // One rank counts, while the others wait: what a second one opens to count would be counted too.
    const auto counted = [&] {
      EXPECT_FLOE_OK(floe_barrier(r.comm, nullptr));
      const auto resources = r.rank == 0 ? std::optional<Resources>(std::in_place) : std::nullopt;
      EXPECT_FLOE_OK(floe_barrier(r.comm, nullptr));
      return resources;
    };
    const auto before = counted();
    for (int turn = 0; turn < kTurns && !testing::Test::HasFatalFailure(); ++turn) make_two();
    EXPECT_EQ(before, counted());
  });
  EXPECT_EQ(0u, store.keys());
}

// The worker and the communicator are there; nobody asks for anything.
TEST(Cost, NoCpuWhileIdle) {
  run_ranks(2,
            [](Rank& r) {
              Exercise(r, {.count = 100'000}, 1).run();
              ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
              std::this_thread::sleep_for(100ms);  // the worker falls asleep
              const double before = cpu_seconds();
              std::this_thread::sleep_for(1s);
              EXPECT_LT(cpu_seconds() - before, kSanitized ? 0.1 : 0.01);
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
