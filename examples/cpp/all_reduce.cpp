// Adds one number per rank on all ranks, and shows how a wrong call is refused. Start it once per rank:
//
//   torchrun --no-python --nproc_per_node 2 build/examples/cpp/all_reduce
#include <floe/floe.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

// Any status but FLOE_OK becomes an exception with floe's message.
static void check(floe_status_t status) {
  if (status != FLOE_OK)
    throw std::runtime_error(std::string(floe_status_string(status)) + ": " + floe_last_error());
}

struct Destroy {
  void operator()(floe_context_t* context) const { floe_context_destroy(context); }
  void operator()(floe_comm_t* comm) const { floe_comm_destroy(comm); }
};
using Context = std::unique_ptr<floe_context_t, Destroy>;
using Comm = std::unique_ptr<floe_comm_t, Destroy>;

static Context create_context() {
  floe_context_t* context = nullptr;
  check(floe_context_create(nullptr, &context));
  return Context(context);
}

static Comm create_comm(floe_context_t* context) {
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.timeout_ms = 10000;  // of the creation and of each operation
  floe_comm_t* comm = nullptr;
  check(floe_comm_create_from_env(context, &config, &comm));
  return Comm(comm);
}

int main() try {
  const Context context = create_context();
  const Comm comm = create_comm(context.get());  // goes before the context
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  check(floe_comm_info(comm.get(), &info));
  int32_t sum = static_cast<int32_t>(info.rank) + 1;

  try {
    check(floe_all_reduce(comm.get(), FLOE_IN_PLACE, &sum, 1, FLOE_INT32, FLOE_AVG, nullptr));
  } catch (const std::runtime_error& e) {  // nothing has been sent: the communicator stays usable
    std::printf("rank %u of %u: refused with %s\n", info.rank, info.size, e.what());
  }

  check(floe_all_reduce(comm.get(), FLOE_IN_PLACE, &sum, 1, FLOE_INT32, FLOE_SUM, nullptr));
  std::printf("rank %u of %u: 1 + ... + %u = %d\n", info.rank, info.size, info.size, sum);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
