#include "device.h"

#include <unistd.h>

#include <mutex>

#include "context.h"
#include "errors.h"

namespace floe::gloo_transport {

floe_context_t* process_context() {
  static std::mutex mutex;
  static floe_context_t* context = nullptr;
  static pid_t owner = 0;

  const std::lock_guard lock(mutex);
  if (context && owner == getpid()) return context;
  // The first use, or a forked child: the parent's context has no threads here.
  floe_context_config_t config = FLOE_CONTEXT_CONFIG_INIT;
  config.workers = 1;  // Gloo's operations advance by themselves
  floe_context_t* created = nullptr;
  if (floe_context_create(&config, &created) != FLOE_OK) {
    throw ::gloo::IoException(std::string("floe: making a Gloo device: ") + floe_last_error());
  }
  context = created;
  owner = getpid();
  return context;
}

std::shared_ptr<gloo_abi::r4::Context> Device::createContext(int rank, int size) {
  return std::make_shared<Context>(shared_from_this(), rank, size);
}

}  // namespace floe::gloo_transport
