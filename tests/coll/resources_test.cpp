// What floe takes of a host, whichever path its messages take: memory, time of processors, libraries.
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "exercise.h"
#include "processes.h"

namespace floe::test {
namespace {

// A line of /proc/self/status, in KiB.
uint64_t status_kib(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  ADD_FAILURE() << "no " << name;
  return 0;
}

// The sender has all under way at once, from one buffer; the receiver posts nothing at first, and is slow
// later.
TEST(SlowReceiver, AFloodOfAGibibyteMakesNobodyGrow) {
  constexpr size_t kMessages = 16'384, kBytes = 64 << 10, kMostKib = 64 << 10;
  Processes(2, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    std::vector<uint64_t> buffer(kBytes / sizeof(uint64_t));
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));  // connects
    const uint64_t before = status_kib("VmRSS:");
    if (rank == 0) {
      std::vector<Request> sent(kMessages);
      for (Request& one : sent)
        ASSERT_FLOE_OK(floe_send(me.comm(), buffer.data(), kBytes, FLOE_UINT8, 1, 7, one.out()));
      for (Request& one : sent) ASSERT_FLOE_OK(one.wait());
    } else {
      ::usleep(500'000);
      for (size_t i = 0; i < kMessages; ++i) {
        if (i % 1000 == 0) ::usleep(20'000);
        ASSERT_FLOE_OK(floe_recv(me.comm(), buffer.data(), kBytes, FLOE_UINT8, 0, 7, nullptr));
      }
    }
    EXPECT_LE(status_kib("VmHWM:"), before + kMostKib) << "KiB, on rank " << rank;
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
  }).expect_success();
}

// Of this process, with all its threads, whatever else runs on the host.
struct Usage {
  static Usage now() {
    rusage all{};
    timespec processor{}, wall{};
    ::getrusage(RUSAGE_SELF, &all);
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &processor);
    ::clock_gettime(CLOCK_MONOTONIC, &wall);
    const auto seconds = [](const timespec& t) {
      return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    };
    return {seconds(wall), seconds(processor), static_cast<double>(all.ru_nvcsw)};
  }
  double wall, processor, sleeps;
};

TEST(Waiting, TakesNextToNoTimeOfAProcessor) {
  const char* const provider = std::getenv("FLOE_PROVIDER");
  if (provider && std::string_view(provider) == "shm") GTEST_SKIP() << "libfabric's shm has to be polled";
  Processes(2, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
    uint8_t byte = 0;
    constexpr useconds_t kUntilAsleep = 1'000'000, kWatched = 1'000'000;
    constexpr int kWindows =
        4;  // of which the best counts: others take CPUs away while the rank still yields
    if (rank == 0) {
      ::usleep(kUntilAsleep + kWindows * kWatched + 300'000);
      ASSERT_FLOE_OK(floe_send(me.comm(), &byte, 1, FLOE_UINT8, 1, 0, nullptr));
      return;
    }
    double processor = 1, sleeps = 1e9;  // a second
    std::thread observer([&] {
      ::usleep(kUntilAsleep);
      for (int window = 0; window < kWindows; ++window) {
        const Usage before = Usage::now();
        ::usleep(kWatched);
        const Usage after = Usage::now();
        const double seconds = after.wall - before.wall;
        processor = std::min(processor, (after.processor - before.processor) / seconds);
        sleeps = std::min(sleeps, (after.sleeps - before.sleeps) / seconds);
      }
    });
    const floe_status_t received = floe_recv(me.comm(), &byte, 1, FLOE_UINT8, 0, 0, nullptr);
    observer.join();
    ASSERT_FLOE_OK(received);
    EXPECT_LE(processor, 0.001) << "of a processor";
    EXPECT_LE(sleeps, 10) << "a second";
  }).expect_success();
}

std::string mapped_libraries_of_libfabric() {
  std::ifstream maps("/proc/self/maps");
  std::string found;
  for (std::string line; std::getline(maps, line);)
    if (line.find("libfabric") != line.npos || line.find("libpsm") != line.npos) found += line + '\n';
  return found;
}

TEST(OneHost, NeverLoadsLibfabric) {
  const char* const shm = std::getenv("FLOE_SHM");
  if (shm && std::string_view(shm) == "off") GTEST_SKIP() << "libfabric is what this run is about";
  Processes(3, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    for (const auto collective : all_collectives())
      Exercise(me.rank(), {collective, FLOE_FLOAT32, FLOE_SUM, 5000, 0, false, 0}, 1).run();
    floe_comm_t* part = nullptr;
    ASSERT_FLOE_OK(floe_comm_split(me.comm(), static_cast<int32_t>(rank % 2), 0, &part));
    ASSERT_FLOE_OK(floe_barrier(part, nullptr));
    ASSERT_FLOE_OK(floe_comm_destroy(part));
    me.leave();
    EXPECT_EQ("", mapped_libraries_of_libfabric());
  }).expect_success();
}

// A cache of registrations by address would go on with the pages that are gone.
class Remapped : public testing::TestWithParam<bool> {};

TEST_P(Remapped, MemoryAtAnOldAddressIsReducedAnew) {
  const bool registers = GetParam();
  Processes(2, [&](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    for (const size_t bytes : {size_t{4} << 10, size_t{256} << 10, size_t{5} << 20}) {
      const size_t count = bytes / sizeof(float);
      void* place = nullptr;
      for (int round = 1; round <= 3; ++round) {
        const int fixed = place ? MAP_FIXED_NOREPLACE : 0;
        void* const memory =
            ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
        ASSERT_NE(MAP_FAILED, memory);
        ASSERT_TRUE(!place || place == memory);
        place = memory;
        auto* const values = static_cast<float*>(memory);
        std::fill_n(values, count, static_cast<float>(round * 10 + static_cast<int>(rank)));
        if (registers) {
          ASSERT_FLOE_OK(floe_mem_register(me.rank().context, memory, bytes));
        }
        ASSERT_FLOE_OK(
            floe_all_reduce(me.comm(), FLOE_IN_PLACE, values, count, FLOE_FLOAT32, FLOE_SUM, nullptr));
        EXPECT_EQ(static_cast<std::ptrdiff_t>(count),
                  std::count(values, values + count, static_cast<float>(round * 20 + 1)));
        if (registers) {
          ASSERT_FLOE_OK(floe_mem_unregister(me.rank().context, memory));
        }
        ASSERT_EQ(0, ::munmap(memory, bytes));
      }
    }
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(, Remapped, testing::Bool(),
                         [](const auto& info) { return info.param ? "Registered" : "NotRegistered"; });

}  // namespace
}  // namespace floe::test
