// Contexts and communicators: made, described, unmade, and nothing left of them.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "exercise.h"

namespace floe::test {
namespace {

size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
}

floe_context_t* create_context() {
  floe_context_t* context = nullptr;
  EXPECT_FLOE_OK(floe_context_create(nullptr, &context));
  return context;
}

TEST(Lifecycle, OneRankNeedsNoStore) {
  floe_context_t* context = create_context();
  floe_comm_t* comm = nullptr;
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  ASSERT_FLOE_OK(floe_comm_create(context, &config, nullptr, &comm));
  const Rank rank{context, comm, 0, 1};
  uint64_t seed = 1;
  for (const auto collective : all_collectives())
    for (const uint64_t count : {0, 1, 100'000})
      for (const bool in_place : {false, true})
        Exercise(rank, {collective, FLOE_BFLOAT16, FLOE_SUM, count, 0, in_place}, seed).run(), ++seed;
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  ASSERT_FLOE_OK(floe_comm_info(comm, &info));
  EXPECT_EQ(0u, info.rank);
  EXPECT_EQ(1u, info.size);
  EXPECT_EQ(1u, info.local_size);
  EXPECT_FLOE_OK(floe_comm_destroy(comm));
  EXPECT_FLOE_OK(floe_context_destroy(context));
}

TEST(Lifecycle, InfoDescribesTheCommunicator) {
  run_ranks(3,
            [](Rank& r) {
              floe_comm_info_t info = FLOE_COMM_INFO_INIT;
              ASSERT_FLOE_OK(floe_comm_info(r.comm, &info));
              EXPECT_EQ(r.rank, info.rank);
              EXPECT_EQ(3u, info.size);
              EXPECT_EQ(r.rank, info.local_rank);
              EXPECT_EQ(3u, info.local_size);
              EXPECT_EQ(12'345u, info.timeout_ms);
              const char* shm = std::getenv("FLOE_SHM");
              EXPECT_EQ(shm && std::string(shm) == "off" ? 0u : 1u, info.direct);
              ASSERT_FLOE_OK(floe_comm_set_timeout(r.comm, 777));
              ASSERT_FLOE_OK(floe_comm_info(r.comm, &info));
              EXPECT_EQ(777u, info.timeout_ms);
            },
            {.timeout_ms = 12'345});
}

TEST(Lifecycle, AContextOutlivesItsCommunicators) {
  run_ranks(1, [](Rank& r) {
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_context_destroy(r.context)) << "with a communicator left";
    Exercise(r, {.count = 10}, 1).run();
  });
}

TEST(Lifecycle, ManyCommunicatorsLeaveNoDescriptorBehind) {
  run_ranks(2, [](Rank& r) { Exercise(r, {.count = 10}, 1).run(); });  // what is opened once and kept
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i)
    run_ranks(3, [](Rank& r) {
      Exercise(r, {.count = 100'000}, 1).run();
      if (r.rank == 0) {
        EXPECT_FLOE_OK(floe_send(r.comm, "x", 1, FLOE_UINT8, 1, 0, nullptr));
      }
      char byte = 0;
      if (r.rank == 1) {
        EXPECT_FLOE_OK(floe_recv(r.comm, &byte, 1, FLOE_UINT8, 0, 0, nullptr));
      }
    });
  EXPECT_EQ(before, open_descriptors());
}

TEST(Lifecycle, CreationRefusesWhatCannotBe) {
  floe_context_t* context = create_context();
  MemoryStore memory;
  const floe_store_t store = memory.handle();
  floe_comm_t* comm = nullptr;
  const auto create = [&](uint32_t rank, uint32_t size, const char* name, const floe_store_t* s) {
    floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
    config.rank = rank;
    config.size = size;
    config.name = name;
    config.timeout_ms = 1000;
    return floe_comm_create(context, &config, s, &comm);
  };
  EXPECT_EQ(FLOE_ERR_ARGUMENT, create(2, 2, nullptr, &store));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, create(0, 0, nullptr, &store));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, create(0, 2, nullptr, nullptr)) << "two ranks without a store";
  EXPECT_NE(nullptr, std::strstr(floe_last_error(), "2 ranks")) << floe_last_error();
  EXPECT_EQ(FLOE_ERR_ARGUMENT, create(3, 2, nullptr, nullptr)) << "what is wrong first";
  EXPECT_NE(nullptr, std::strstr(floe_last_error(), "rank is 3")) << floe_last_error();
  EXPECT_EQ(FLOE_ERR_ARGUMENT, create(0, 2, std::string(64, 'x').c_str(), &store));
  EXPECT_EQ(FLOE_ERR_ARGUMENT, create(0, 2, "new\nline", &store));
  floe_store_t incomplete = store;
  incomplete.get = nullptr;
  EXPECT_EQ(FLOE_ERR_ARGUMENT, create(0, 2, nullptr, &incomplete));
  EXPECT_EQ(nullptr, comm);
  EXPECT_FLOE_OK(floe_context_destroy(context));
}

// One rank begins with one, the other with the other: neither creation may wait for the end of the other.
TEST(Lifecycle, CreationsOnOneContextOverlap) {
  MemoryStore memory;
  run_ranks(2, [&](Rank& r) {
    const auto make_and_use = [&](const char* name) {
      floe_comm_t* comm = create_comm(r.context, r.rank, r.size, name, memory);
      ASSERT_NE(nullptr, comm);
      double value = r.rank + 1.0;
      ASSERT_FLOE_OK(floe_all_reduce(comm, FLOE_IN_PLACE, &value, 1, FLOE_FLOAT64, FLOE_SUM, nullptr));
      EXPECT_EQ(3.0, value);
      EXPECT_FLOE_OK(floe_comm_destroy(comm));
    };
    for (int turn = 0; turn < 5; ++turn) {
      std::thread second([&] {
        if (r.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        make_and_use("b");
      });
      if (r.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      make_and_use("a");
      second.join();
      ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));  // the names are free again on all ranks
    }
  });
}

// Creates a communicator of `size` from these ranks, each a thread with a store of its own making, over
// `memory`, and fails to on each.
struct Creation {
  uint32_t size;
  uint64_t timeout_ms;
  MemoryStore memory{};

  void fails(const std::vector<uint32_t>& ranks,
             const std::function<void(uint32_t rank, floe_store_t& store)>& prepare,
             const std::function<void(uint32_t rank, floe_status_t status, const std::string& text)>& check) {
    std::vector<std::thread> threads;
    for (const uint32_t rank : ranks)
      threads.emplace_back([&, rank] {
        floe_context_t* context = create_context();
        floe_store_t store = memory.handle();
        prepare(rank, store);
        floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
        config.rank = rank;
        config.size = size;
        config.timeout_ms = timeout_ms;
        floe_comm_t* comm = nullptr;
        const floe_status_t status = floe_comm_create(context, &config, &store, &comm);
        check(rank, status, floe_last_error());
        EXPECT_EQ(nullptr, comm);
        EXPECT_FLOE_OK(floe_context_destroy(context));
      });
    for (auto& thread : threads) thread.join();
  }
};

floe_status_t get(void* memory, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                  uint64_t timeout_ms) {
  return static_cast<MemoryStore*>(memory)->handle().get(memory, key, value, capacity, bytes, timeout_ms);
}

TEST(Lifecycle, AMissingRankIsNamedWhenTheTimeIsUp) {
  Creation creation{4, 1000};
  creation.fails(
      {0, 1, 3}, [](uint32_t, floe_store_t&) {},
      [](uint32_t, floe_status_t status, const std::string& text) {
        EXPECT_EQ(FLOE_ERR_STORE, status) << floe_status_string(status) << ": " << text;
        EXPECT_NE(std::string::npos, text.find("rank 2 of 4 ")) << text;
      });
}

TEST(Lifecycle, AContextIsNotDestroyedUnderACreation) {
  floe_context_t* context = create_context();
  std::atomic<bool> waits{false};
  floe_store_t store = FLOE_STORE_INIT;
  store.user = &waits;
  store.set = [](void*, const char*, const void*, uint64_t) { return FLOE_OK; };
  store.get = [](void* user, const char*, void*, uint64_t, uint64_t*, uint64_t timeout_ms) {
    *static_cast<std::atomic<bool>*>(user) = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
    return FLOE_ERR_TIMEOUT;
  };
  std::thread creator([&] {
    floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
    config.size = 2;
    config.timeout_ms = 1000;
    floe_comm_t* comm = nullptr;
    EXPECT_EQ(FLOE_ERR_STORE, floe_comm_create(context, &config, &store, &comm)) << floe_last_error();
  });
  while (!waits) std::this_thread::yield();
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_context_destroy(context));
  EXPECT_NE(nullptr, std::strstr(floe_last_error(), "creating communicators")) << floe_last_error();
  creator.join();
  EXPECT_FLOE_OK(floe_context_destroy(context));
}

// It has told the others that it is ready, and then its store is slow: who waits for it learns that, and for
// how long.
TEST(Lifecycle, ARankThatIsLateForTheLastBarrierIsNamed) {
  const auto prepare = [](uint32_t rank, floe_store_t& store) {
    if (rank != 2) return;
    store.get = [](void* self, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                   uint64_t timeout_ms) {
      constexpr auto kLate = std::chrono::milliseconds(6000);
      if (std::strstr(key, "/ready/0")) std::this_thread::sleep_for(kLate);
      return get(self, key, value, capacity, bytes, timeout_ms);
    };
  };
  Creation creation{3, 4000};
  creation.fails({0, 1, 2}, prepare, [](uint32_t rank, floe_status_t status, const std::string& text) {
    if (rank == 2) return;
    EXPECT_EQ(FLOE_ERR_TIMEOUT, status) << text;
    for (const char* words : {"creating 'world' on rank", "creation", "Timed out", "rank 2 (host", " s for "})
      EXPECT_NE(std::string::npos, text.find(words)) << "no '" << words << "' in: " << text;
    EXPECT_EQ(std::string::npos, text.find("floe_comm_abort")) << text;
    EXPECT_EQ(std::string::npos, text.find("barrier")) << text;
  });
}

// All have connected when rank 2 falls silent: the others wait for it until their deadline, and not for what
// they might have sent to it, too.
TEST(Lifecycle, ARankThatIsNeverReadyCostsNoMoreThanTheDeadline) {
  static constexpr std::chrono::milliseconds kTimeout(1500), kSilence(6000);
  const auto prepare = [](uint32_t rank, floe_store_t& store) {
    if (rank != 2) return;
    store.set = [](void* self, const char* key, const void* value, uint64_t bytes) {
      if (std::strstr(key, "/ready/2")) std::this_thread::sleep_for(kSilence);
      return static_cast<MemoryStore*>(self)->handle().set(self, key, value, bytes);
    };
  };
  const auto begin = std::chrono::steady_clock::now();
  Creation creation{3, kTimeout.count()};
  creation.fails({0, 1, 2}, prepare, [&](uint32_t rank, floe_status_t status, const std::string& text) {
    if (rank == 2) return;
    constexpr std::chrono::milliseconds kGivingUp(1500);  // keys stay in a caller's store for half a second
    EXPECT_LT((std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(1),
              (kTimeout + kGivingUp).count());
    EXPECT_EQ(FLOE_ERR_STORE, status) << text;
    EXPECT_NE(std::string::npos, text.find("rank 2 of 3 ")) << text;
    EXPECT_NE(std::string::npos, text.find("phase ready")) << text;
  });
}

// Whoever is through first has known for a while that rank 2 has failed when rank 1 asks whether it was
// ready.
TEST(Lifecycle, ARankThatIsSlowToReadHearsOfTheFailedOneToo) {
  static std::atomic<bool> failed;
  failed = false;
  const auto prepare = [](uint32_t rank, floe_store_t& store) {
    if (rank == 1)
      store.get = [](void* self, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                     uint64_t timeout_ms) {
        constexpr auto kLate = std::chrono::milliseconds(200), kStep = std::chrono::milliseconds(1);
        if (std::strstr(key, "/ready/0")) {
          for (uint64_t waited_ms = 0; !failed && waited_ms < timeout_ms; ++waited_ms)
            std::this_thread::sleep_for(kStep);
          std::this_thread::sleep_for(kLate);
        }
        return get(self, key, value, capacity, bytes, timeout_ms);
      };
    if (rank == 2)
      store.get = [](void* self, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                     uint64_t timeout_ms) {
        if (!std::strstr(key, "/ready/1")) return get(self, key, value, capacity, bytes, timeout_ms);
        failed = true;
        return FLOE_ERR_SYSTEM;
      };
  };
  Creation creation{3, 4000};
  creation.fails({0, 1, 2}, prepare, [](uint32_t rank, floe_status_t status, const std::string& text) {
    if (rank == 2) return;
    EXPECT_EQ(FLOE_ERR_PEER, status) << text;
    EXPECT_NE(std::string::npos, text.find("rank 2 (host")) << text;
  });
  EXPECT_EQ(0, creation.memory.keys());
}

TEST(Lifecycle, AFailingStoresErrorIsPassedOn) {
  floe_context_t* context = create_context();
  floe_store_t store = FLOE_STORE_INIT;
  store.set = [](void*, const char*, const void*, uint64_t) { return FLOE_ERR_SYSTEM; };
  store.get = [](void*, const char*, void*, uint64_t, uint64_t*, uint64_t) { return FLOE_ERR_SYSTEM; };
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.size = 2;
  config.timeout_ms = 1000;
  floe_comm_t* comm = nullptr;
  EXPECT_EQ(FLOE_ERR_SYSTEM, floe_comm_create(context, &config, &store, &comm)) << floe_last_error();
  EXPECT_NE(std::string::npos, std::string(floe_last_error()).find("store failed")) << floe_last_error();
  EXPECT_FLOE_OK(floe_context_destroy(context));
}

// Values that no floe wrote, of any length.
TEST(Lifecycle, AStoreFullOfGarbageIsAnError) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{4096}, UINT64_MAX}) {
    floe_context_t* context = create_context();
    floe_store_t store = FLOE_STORE_INIT;
    uint64_t size = bytes;
    store.user = &size;
    store.set = [](void*, const char*, const void*, uint64_t) { return FLOE_OK; };
    store.get = [](void* user, const char*, void* value, uint64_t capacity, uint64_t* got, uint64_t) {
      std::memset(value, 0x5a, capacity);
      *got = *static_cast<uint64_t*>(user);
      return FLOE_OK;
    };
    floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
    config.size = 3;
    config.timeout_ms = 1000;
    floe_comm_t* comm = nullptr;
    EXPECT_NE(FLOE_OK, floe_comm_create(context, &config, &store, &comm));
    EXPECT_EQ(nullptr, comm);
    EXPECT_FLOE_OK(floe_context_destroy(context));
  }
}

}  // namespace
}  // namespace floe::test
