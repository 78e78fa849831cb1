#include "ranks.h"

#include <thread>
#include <vector>

namespace floe::test {
namespace {

void run_rank(Rank rank, MemoryStore& store, const RankOptions& options,
              const std::function<void(Rank&)>& body) {
  floe_context_config_t config = FLOE_CONTEXT_CONFIG_INIT;
  config.workers = options.workers;
  ASSERT_FLOE_OK(floe_context_create(&config, &rank.context));
  rank.comm = create_comm(rank.context, rank.rank, rank.size, "test", store, options.timeout_ms);
  if (rank.comm) {
    body(rank);
    if (rank.comm) {  // the body may have destroyed it
      EXPECT_FLOE_OK(floe_comm_destroy(rank.comm));
    }
  }
  EXPECT_FLOE_OK(floe_context_destroy(rank.context));
}

}  // namespace

floe_comm_t* create_comm(floe_context_t* context, uint32_t rank, uint32_t size, const char* name,
                         MemoryStore& store, uint64_t timeout_ms) {
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.name = name;
  config.timeout_ms = timeout_ms;
  const floe_store_t handle = store.handle();
  floe_comm_t* comm = nullptr;
  EXPECT_FLOE_OK(floe_comm_create(context, &config, &handle, &comm))
      << "creating '" << name << "' on rank " << rank;
  return comm;
}

void run_ranks(uint32_t size, const std::function<void(Rank&)>& body, RankOptions options) {
  MemoryStore store;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      SCOPED_TRACE("rank " + std::to_string(rank) + " of " + std::to_string(size));
      run_rank({nullptr, nullptr, rank, size}, store, options, body);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(0u, store.keys()) << "keys are left in the store";
}

}  // namespace floe::test
