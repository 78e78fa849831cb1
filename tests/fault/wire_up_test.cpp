// Creation across hosts, which are pretended, while somebody else writes to the store, or a rank dies.
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>

#include "pretended_hosts.h"
#include "processes.h"
#include "shared_store.h"
#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

class WireUp : public PretendedHosts {
 public:
  // In the communicator `name`, what rank `of` says in `phase` is not what it has written.
  static SharedStore::Read forged(const std::string& name, const std::string& phase, uint32_t of) {
    return [phase, key = "floe/" + name + "/" + phase + "/" + std::to_string(of)](const std::string& read,
                                                                                  std::string& value) {
      if (read != key) return;
      // Of a fabric address the last digit of what tells this endpoint from an older one.
      const size_t id = phase == "fabric" ? value.rfind(' ', value.find('\n')) : value.npos;
      if (id == value.npos)
        value += ' ';
      else
        value[id - 1] = value[id - 1] == '0' ? '1' : '0';
    };
  }

  static floe_status_t create(floe_context_t* context, SharedStore& store, const char* name, uint32_t rank,
                              uint32_t size, floe_comm_t** comm) {
    floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
    config.name = name;
    config.rank = rank;
    config.size = size;
    config.timeout_ms = kSanitized ? 10'000 : 3'000;
    const floe_store_t handle = store.handle();
    return floe_comm_create(context, &config, &handle, comm);
  }
};

const std::string kOtherValues = "has read other values of the ranks from the store";

class ForgedValue : public WireUp, public testing::WithParamInterface<const char*> {};

TEST_P(ForgedValue, IsRefusedByBothHosts) {
  SharedStore store;
  Processes(2, [&](uint32_t rank) {
    move_to_host(rank);
    if (rank == 0) store.on_read(forged("world", GetParam(), 1));
    floe_context_t* context = nullptr;
    ASSERT_FLOE_OK(floe_context_create(nullptr, &context));
    floe_comm_t* comm = nullptr;
    const floe_status_t status = create(context, store, "world", rank, 2, &comm);
    EXPECT_EQ(rank == 0 ? FLOE_ERR_TIMEOUT : FLOE_ERR_MISMATCH, status);
    const std::string text = floe_last_error();
    EXPECT_NE(text.npos, text.find(kOtherValues)) << text;
    EXPECT_FLOE_OK(floe_context_destroy(context));
  }).expect_success(30s);
}

INSTANTIATE_TEST_SUITE_P(Phases, ForgedValue, testing::Values("card", "shm", "fabric"),
                         [](const auto& info) { return std::string(info.param); });

// Its host's connections are made by another rank, which has read what is right.
TEST_F(WireUp, AForgedValueIsRefusedByARankThatIsHandedItsConnections) {
  SharedStore store;
  Processes(4, [&](uint32_t rank) {
    move_to_host(rank / 2);
    if (rank == 3) store.on_read(forged("world", "fabric", 0));
    floe_context_t* context = nullptr;
    ASSERT_FLOE_OK(floe_context_create(nullptr, &context));
    floe_comm_t* comm = nullptr;
    const floe_status_t status = create(context, store, "world", rank, 4, &comm);
    EXPECT_NE(FLOE_OK, status);
    if (rank == 3) {
      EXPECT_EQ(FLOE_ERR_MISMATCH, status);
      const std::string text = floe_last_error();
      EXPECT_NE(text.npos, text.find(kOtherValues)) << text;
      EXPECT_NE(text.npos, text.find("rank 2 (host ")) << text;
    }
    EXPECT_FLOE_OK(floe_context_destroy(context));
  }).expect_success(30s);
}

// Though the hosts have a connection that they have proved before.
TEST_F(WireUp, WithASecretALaterCommunicatorIsProvedToo) {
  SharedStore store;
  const auto body = [&](uint32_t rank) {
    move_to_host(rank);
    if (rank == 0) store.on_read(forged("second", "fabric", 1));
    floe_context_t* context = nullptr;
    ASSERT_FLOE_OK(floe_context_create(nullptr, &context));
    floe_comm_t *first = nullptr, *second = nullptr;
    ASSERT_FLOE_OK(create(context, store, "first", rank, 2, &first));
    // Longer than what follows: who is called hears of other values only by its deadline.
    ASSERT_FLOE_OK(floe_comm_set_timeout(first, 30'000));
    EXPECT_NE(FLOE_OK, create(context, store, "second", rank, 2, &second));
    const std::string text = floe_last_error();
    EXPECT_NE(text.npos, text.find(kOtherValues)) << text;
    ASSERT_FLOE_OK(floe_barrier(first, nullptr)) << "it goes on";
    EXPECT_FLOE_OK(floe_comm_destroy(first));
    EXPECT_FLOE_OK(floe_context_destroy(context));
  };
  Processes(2, body, {{"FLOE_SECRET", "of this test"}}).expect_success(30s);
}

// Rank `victim` of 4 on 2 hosts dies once it has read what rank 0 says in the phase `fabric`; `witness`, of
// its host, goes on from there when it is dead.
void expect_named(uint32_t victim, uint32_t witness) {
  SharedStore store;
  Processes processes(4, [&](uint32_t rank) {
    move_to_host(rank / 2);
    store.on_read([&](const std::string& key, std::string&) {
      if (key != "floe/world/fabric/0") return;
      if (rank == victim) {
        Processes::report(victim).stage = 1;
        raise(SIGKILL);
      } else if (rank == witness) {
        while (Processes::report(victim).stage != 1) std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(200ms);
      }
    });
    floe_context_t* context = nullptr;
    ASSERT_FLOE_OK(floe_context_create(nullptr, &context));
    floe_comm_t* comm = nullptr;
    Processes::report(rank).note(WireUp::create(context, store, "world", rank, 4, &comm));
    EXPECT_FLOE_OK(floe_context_destroy(context));
  });
  const std::string pid = "pid " + std::to_string(processes.pid(victim));
  processes.expect_success(30s, victim);
  expect_report(witness, FLOE_ERR_PEER, {"rank " + std::to_string(victim) + " (host ", pid, "died"});
}

// Rank 2 is the one of its host that calls the others' and hands over the connections.
TEST_F(WireUp, WhoDiesBeforeItHandsOverConnectionsIsNamed) { expect_named(2, 3); }
TEST_F(WireUp, WhoDiesBeforeItIsHandedConnectionsIsNamed) { expect_named(3, 2); }

}  // namespace
}  // namespace floe::test
