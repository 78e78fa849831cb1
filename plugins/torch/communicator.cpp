#include "communicator.h"

#include <cstddef>
#include <utility>

#include "errors.h"
#include "store.h"

namespace floe_torch {

void Health::note(floe_status_t status) {
  switch (status) {
    case FLOE_OK:
    case FLOE_ERR_ARGUMENT:
    case FLOE_ERR_UNSUPPORTED:
    case FLOE_ERR_FORKED: return;  // the communicator is as it was
    case FLOE_ERR_TIMEOUT: error = c10d::ErrorType::TIMEOUT; return;
    case FLOE_ERR_PEER: error = c10d::ErrorType::REMOTE_ERROR; return;
    default: error = c10d::ErrorType::COMM_ERROR; return;
  }
}

Communicator::Communicator(floe_context_t* context, const c10::intrusive_ptr<c10d::Store>& store, int rank,
                           int size, const std::string& name, std::chrono::milliseconds timeout,
                           std::shared_ptr<Health> health, Cancelled cancelled)
    : health_(std::move(health)) {
  StoreAdapter adapter(store, std::move(cancelled));
  const floe_store_t callbacks = adapter.callbacks();
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.rank = static_cast<uint32_t>(rank);
  config.size = static_cast<uint32_t>(size);
  config.name = name.c_str();
  config.timeout_ms = static_cast<uint64_t>(timeout.count());
  const floe_status_t status = floe_comm_create(context, &config, &callbacks, &handle_);
  if (status == FLOE_OK) return;
  std::string message = floe_last_error();
  if (!adapter.problem().empty()) message += " (the store said: " + adapter.problem() + ")";
  std::rethrow_exception(make_error(status, "creating process group '" + name + "' over floe", message));
}

// ---- WhileCreating --------------------------------------------------------------------------------------

namespace {

constexpr const char* kWhat = "creating a communicator for the collectives of callbacks";
std::byte nothing;  // where empty messages are

}  // namespace

WhileCreating::WhileCreating(std::shared_ptr<Communicator> group, int rank, int size, uint64_t tag,
                             Ring& ring)
    : group_(std::move(group)), rank_(rank), size_(size), tag_(tag), ring_(ring) {
  if (size_ == 1 || ring_.message) return;
  const auto neighbour = static_cast<uint32_t>((rank_ + size_ - 1) % size_);
  floe_request_t* message = nullptr;
  const std::shared_lock starting(group_->starting());
  check(floe_recv(group_->handle(), &nothing, 0, FLOE_UINT8, neighbour, tag_, &message), kWhat);
  ring_.message.reset(message);
}

bool WhileCreating::failed() {
  if (ring_.message && status_ == FLOE_IN_PROGRESS) {
    status_ = floe_test(ring_.message.get());
    if (status_ != FLOE_OK && status_ != FLOE_IN_PROGRESS) error_ = floe_last_error();
  }
  return status_ != FLOE_OK && status_ != FLOE_IN_PROGRESS;
}

void WhileCreating::check_group() {
  if (!failed()) return;
  group_->health()->note(status_);
  std::rethrow_exception(make_error(status_, kWhat, error_));
}

floe_status_t WhileCreating::tell() {
  if (!ring_.message || std::exchange(ring_.told, true)) return FLOE_OK;
  const auto neighbour = static_cast<uint32_t>((rank_ + 1) % size_);
  floe_request_t* sending = nullptr;
  const std::shared_lock starting(group_->starting());
  const floe_status_t status =
      floe_send(group_->handle(), &nothing, 0, FLOE_UINT8, neighbour, tag_, &sending);
  floe_request_free(sending);  // it goes on
  return status;
}

void WhileCreating::done() {
  if (!ring_.message) return;
  check(tell(), kWhat);
  check(floe_wait(ring_.message.get(), FLOE_NO_TIMEOUT), kWhat);
  ring_.message = nullptr;
}

}  // namespace floe_torch
