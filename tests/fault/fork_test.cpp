// A forked child: whatever handle of its parent's it uses, every function answers FLOE_ERR_FORKED; the parent
// does not notice; and the child may have a context of its own.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "exercise.h"
#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

struct Handles {
  floe_context_t* context;
  floe_comm_t* comm;
  floe_request_t* request;
  void* memory;  // of floe_mem_alloc
};

using Call = std::function<floe_status_t(const Handles&)>;

// How a child calls each function with a handle of its parent's. A new function of floe.h gets a row here, or
// in without_handle().
const std::map<std::string, Call>& calls() {
  static float data[8];
  static floe_comm_t* comm = nullptr;
  static floe_request_t* made = nullptr;
  static const uint32_t source = 1;
  static const uint64_t counts[] = {1, 1};
  static floe_op_t op = FLOE_SUM;
  static const floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  static floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  static floe_request_info_t request_info = FLOE_REQUEST_INFO_INIT;
  static floe_context_info_t context_info = FLOE_CONTEXT_INFO_INIT;
  static floe_setting_t setting = FLOE_SETTING_INIT;
  static floe_comm_statistics_t statistics = FLOE_COMM_STATISTICS_INIT;
  static void* memory = nullptr;
  constexpr auto kType = FLOE_FLOAT32;
  static const std::map<std::string, Call> table = {
      {"floe_all_gather", [](auto& h) { return floe_all_gather(h.comm, data, data + 4, 1, kType, nullptr); }},
      {"floe_all_gather_v",
       [](auto& h) { return floe_all_gather_v(h.comm, data, data + 4, counts, nullptr, kType, nullptr); }},
      {"floe_all_to_all", [](auto& h) { return floe_all_to_all(h.comm, data, data + 4, 1, kType, nullptr); }},
      {"floe_all_to_all_v",
       [](auto& h) {
         return floe_all_to_all_v(h.comm, data, counts, nullptr, data + 4, counts, nullptr, kType, nullptr);
       }},
      {"floe_gather", [](auto& h) { return floe_gather(h.comm, data, data + 4, 1, kType, 0, nullptr); }},
      {"floe_gather_v",
       [](auto& h) { return floe_gather_v(h.comm, data, 1, data + 4, counts, nullptr, kType, 0, nullptr); }},
      {"floe_scatter", [](auto& h) { return floe_scatter(h.comm, data, data + 4, 1, kType, 0, nullptr); }},
      {"floe_scatter_v",
       [](auto& h) { return floe_scatter_v(h.comm, data, counts, nullptr, data + 4, 1, kType, 0, nullptr); }},
      {"floe_reduce_scatter_v",
       [](auto& h) {
         return floe_reduce_scatter_v(h.comm, data, data + 4, counts, nullptr, kType, FLOE_SUM, nullptr);
       }},
      {"floe_op_create_premul_sum",
       [](auto& h) { return floe_op_create_premul_sum(h.comm, data, kType, &op); }},
      {"floe_op_destroy", [](auto& h) { return floe_op_destroy(h.comm, FLOE_SUM); }},
      {"floe_all_reduce",
       [](auto& h) { return floe_all_reduce(h.comm, FLOE_IN_PLACE, data, 1, kType, FLOE_SUM, nullptr); }},
      {"floe_barrier", [](auto& h) { return floe_barrier(h.comm, nullptr); }},
      {"floe_broadcast", [](auto& h) { return floe_broadcast(h.comm, data, 1, kType, 0, nullptr); }},
      {"floe_comm_abort", [](auto& h) { return floe_comm_abort(h.comm); }},
      {"floe_comm_create", [](auto& h) { return floe_comm_create(h.context, &config, nullptr, &comm); }},
      {"floe_comm_create_from_env",
       [](auto& h) { return floe_comm_create_from_env(h.context, nullptr, &comm); }},
      {"floe_comm_destroy", [](auto& h) { return floe_comm_destroy(h.comm); }},
      {"floe_comm_info", [](auto& h) { return floe_comm_info(h.comm, &info); }},
      {"floe_comm_set_timeout", [](auto& h) { return floe_comm_set_timeout(h.comm, 1); }},
      {"floe_comm_set_wire_type", [](auto& h) { return floe_comm_set_wire_type(h.comm, kType); }},
      {"floe_comm_shrink", [](auto& h) { return floe_comm_shrink(h.comm, &comm); }},
      {"floe_comm_split", [](auto& h) { return floe_comm_split(h.comm, 0, 0, &comm); }},
      {"floe_comm_statistics", [](auto& h) { return floe_comm_statistics(h.comm, &statistics); }},
      {"floe_context_destroy", [](auto& h) { return floe_context_destroy(h.context); }},
      {"floe_context_info", [](auto& h) { return floe_context_info(h.context, &context_info); }},
      {"floe_mem_alloc", [](auto& h) { return floe_mem_alloc(h.context, 1, &memory); }},
      {"floe_mem_free", [](auto& h) { return floe_mem_free(h.context, h.memory); }},
      {"floe_mem_register", [](auto& h) { return floe_mem_register(h.context, data, sizeof data); }},
      {"floe_mem_unregister", [](auto& h) { return floe_mem_unregister(h.context, data); }},
      {"floe_recv", [](auto& h) { return floe_recv(h.comm, data, 1, kType, FLOE_ANY_SOURCE, 0, nullptr); }},
      {"floe_recv_any",
       [](auto& h) { return floe_recv_any(h.comm, data, 1, kType, &source, 1, 0, nullptr); }},
      {"floe_reduce",
       [](auto& h) { return floe_reduce(h.comm, data, data + 4, 1, kType, FLOE_SUM, 0, nullptr); }},
      {"floe_reduce_scatter",
       [](auto& h) { return floe_reduce_scatter(h.comm, data, data + 4, 1, kType, FLOE_SUM, nullptr); }},
      {"floe_request_free", [](auto& h) { return floe_request_free(h.request); }},
      {"floe_request_info", [](auto& h) { return floe_request_info(h.request, &request_info); }},
      {"floe_request_on_complete",
       [](auto& h) {
         return floe_request_on_complete(
             h.request, [](void*, floe_status_t, const char*) {}, nullptr);
       }},
      {"floe_send", [](auto& h) { return floe_send(h.comm, data, 1, kType, source, 0, &made); }},
      {"floe_sendrecv",
       [](auto& h) { return floe_sendrecv(h.comm, data, 1, 1, 0, data, 1, FLOE_ANY_SOURCE, 0, kType); }},
      {"floe_setting", [](auto& h) { return floe_setting(h.context, 0, &setting); }},
      {"floe_test", [](auto& h) { return floe_test(h.request); }},
      {"floe_wait", [](auto& h) { return floe_wait(h.request, 0); }},
  };
  return table;
}

const std::set<std::string>& without_handle() {
  static const std::set<std::string> names = {
      "floe_context_create", "floe_last_error", "floe_local_reduce", "floe_set_log_callback",
      "floe_status_string",  "floe_topology",   "floe_version"};
  return names;
}

// The functions in abi/exported.txt, without their versions.
std::set<std::string> exported() {
  std::set<std::string> names;
  std::ifstream file(FLOE_EXPORTED);
  for (std::string line; std::getline(file, line);) names.insert(line.substr(0, line.find('@')));
  return names;
}

// Runs `body` in a forked child; false if an expectation failed there or it did not end by itself.
bool in_a_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a child that hangs fails
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Fork, NoFunctionIsForgotten) {
  std::set<std::string> covered = without_handle();
  for (const auto& [name, call] : calls()) covered.insert(name);
  EXPECT_EQ(exported(), covered);
}

TEST(Fork, EveryFunctionAnswersInTheChildAndTheParentGoesOn) {
  Processes(2, [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    const Rank& r = me.rank();
    Exercise(r, {.count = 1000}, 1).run();
    void* memory = nullptr;
    ASSERT_FLOE_OK(floe_mem_alloc(r.context, 1000, &memory));
    Request request;
    float value = 1;
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, &value, 1, FLOE_FLOAT32, FLOE_SUM, request.out()));
    EXPECT_TRUE(in_a_child([&] {
      for (const auto& [name, call] : calls()) {
        EXPECT_EQ(FLOE_ERR_FORKED, call({r.context, r.comm, request.get(), memory})) << name;
        EXPECT_NE(std::string::npos, std::string(floe_last_error()).find("fork")) << name;
      }
      EXPECT_FLOE_OK(floe_request_free(nullptr));
    }));
    ASSERT_FLOE_OK(request.wait());
    EXPECT_EQ(2.0f, value);
    std::memset(memory, 1, 1000);
    EXPECT_FLOE_OK(floe_mem_free(r.context, memory));
    for (uint64_t seed = 1; seed < 50; ++seed) Exercise(r, {.count = seed * 1000}, seed).run();
  }).expect_success(60s);
}

// As a DataLoader does: children come and go while collectives run, with a worker thread in the parent. They
// end through exit, which runs destructors and atexit handlers.
TEST(Fork, ChildrenThatComeAndGoLeaveTheParentAlone) {
  Processes(2, [](uint32_t) {
    setenv("FLOE_WORKERS", "1", 1);
    Member me;
    ASSERT_FLOE_OK(me.status());
    std::vector<float> data(300'000, 1.0f);
    for (int turn = 0; turn < 10; ++turn) {
      Request request;
      ASSERT_FLOE_OK(floe_all_reduce(me.comm(), FLOE_IN_PLACE, data.data(), data.size(), FLOE_FLOAT32,
                                     FLOE_MAX, request.out()));
      EXPECT_TRUE(in_a_child([] { std::exit(testing::Test::HasFailure() ? 1 : 0); }));
      ASSERT_FLOE_OK(request.wait());
      EXPECT_EQ(1.0f, data.back());
    }
  }).expect_success(60s);
}

bool is_mapped(const void* memory) {
  constexpr uintptr_t kPage = 4096;
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) / kPage * kPage), 1,
                 &resident) == 0;
}

// Memory that peers map is the parent's alone: a child could neither copy it on write nor let it go.
TEST(Fork, SharedMemoryIsNotInherited) {
  Processes(2, [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    void* memory = nullptr;
    ASSERT_FLOE_OK(floe_mem_alloc(me.rank().context, 1 << 20, &memory));
    std::memset(memory, 1, 1 << 20);
    ASSERT_TRUE(is_mapped(memory));
    EXPECT_TRUE(in_a_child([&] {
      EXPECT_FALSE(is_mapped(memory));
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);)
        EXPECT_EQ(line.npos, line.find("memfd:floe-segment")) << line;
    }));
    EXPECT_FLOE_OK(floe_mem_free(me.rank().context, memory));
  }).expect_success(30s);
}

TEST(Fork, AChildMayHaveAContextOfItsOwn) {
  Processes(2, [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    EXPECT_TRUE(in_a_child([] { run_ranks(2, [](Rank& r) { Exercise(r, {.count = 10'000}, 1).run(); }); }));
    Exercise(me.rank(), {.count = 1000}, 1).run();
  }).expect_success(60s);
}

// Of a child that outlives a rank: what it inherited keeps nothing of the rank's alive.
TEST(Fork, AnOrphanDoesNotHideADeath) {
  Processes(2, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
    if (rank == 1) {
      const pid_t parent = getpid();
      if (fork() == 0) {
        while (getppid() == parent) usleep(1000);
        sleep(2);
        _exit(0);
      }
      _exit(0);
    }
    EXPECT_EQ(FLOE_ERR_PEER, floe_barrier(me.comm(), nullptr)) << floe_last_error();
  }).expect_success(30s);
}

}  // namespace
}  // namespace floe::test
