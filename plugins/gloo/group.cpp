#include "group.h"

#include <algorithm>
#include <cstring>

#include "boot/tcp_store.h"
#include "courier.h"
#include "errors.h"

namespace floe::gloo_transport {
namespace {

using Millis = std::chrono::milliseconds;

// Gloo bounds each wait, not the operation: a receive may be posted hours before anybody waits for it,
// and a wait may have a longer timeout than the context. So floe's own deadline stays out of the way.
constexpr uint64_t kOperationTimeoutMs =
    std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::hours(24 * 365)).count();

// Gloo's programs allow 192, of which a host's name and a port take this at most.
constexpr size_t kAddressBytes = 160;

floe_status_t report(const Status& status, std::string& error) {
  if (!status.ok()) error = status.message();
  return status.code();
}

// floe's own store as a caller's.
struct Rank0Store {
  std::unique_ptr<TcpStore> store;
  std::string error;

  static floe_status_t set(void* user, const char* key, const void* value, uint64_t bytes) {
    auto& self = *static_cast<Rank0Store*>(user);
    return report(self.store->set(key, {static_cast<const char*>(value), bytes}), self.error);
  }
  static floe_status_t get(void* user, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                           uint64_t timeout_ms) {
    auto& self = *static_cast<Rank0Store*>(user);
    auto found = self.store->get(key, Deadline::in_ms(timeout_ms));
    if (!found.ok()) return report(found.status(), self.error);
    std::memcpy(value, found->data(), std::min<uint64_t>(capacity, found->size()));
    *bytes = found->size();
    return FLOE_OK;
  }
  static floe_status_t remove(void* user, const char* key) {
    auto& self = *static_cast<Rank0Store*>(user);
    return report(self.store->remove(key), self.error);
  }
};

}  // namespace

Group::Group(floe_context_t* floe, int rank, int size, std::string host)
    : floe_(floe), rank_(rank), size_(size), host_(std::move(host)) {
  if (size < 1 || rank < 0 || rank >= size)
    throw ::gloo::InvalidOperationException(who() + " does not exist");
}

Group::~Group() {
  if (courier_) courier_->stop();
  comm_.reset();  // completes what the courier has posted
}

std::string Group::who() const {
  return "floe: rank " + std::to_string(rank_) + " of " + std::to_string(size_);
}

void Group::connect(const floe_store_t& store, const std::string& store_error, Millis timeout) {
  if (comm_) throw ::gloo::InvalidOperationException(who() + " is connected already");
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  config.rank = static_cast<uint32_t>(rank_);
  config.size = static_cast<uint32_t>(size_);
  config.name = "gloo";
  config.timeout_ms = static_cast<uint64_t>(std::max<int64_t>(1, timeout.count()));
  floe_comm_t* comm = nullptr;
  if (floe_comm_create(floe_, &config, &store, &comm) != FLOE_OK) {
    const std::string cause = store_error.empty() ? "" : "; the store said: " + store_error;
    throw ::gloo::IoException(who() + ", connecting: " + floe_last_error() + cause);
  }
  comm_.reset(comm);
  if (floe_comm_set_timeout(comm, kOperationTimeoutMs) != FLOE_OK) {
    throw ::gloo::IoException(who() + ", connecting: " + floe_last_error());
  }
}

std::vector<char> Group::address() {
  const std::lock_guard lock(mutex_);
  if (rank_ == 0 && rank_0_.empty()) {
    auto server = TcpStoreServer::start(host_, 0, static_cast<uint32_t>(size_));
    if (!server.ok()) throw ::gloo::IoException(who() + ", connecting: " + server.status().message());
    server_ = std::move(*server);
    rank_0_ = host_ + ' ' + std::to_string(server_->port());
  }
  std::vector<char> bytes(kAddressBytes);
  const std::string text = rank_ == 0 ? rank_0_ : "rank " + std::to_string(rank_);
  if (text.size() > bytes.size()) {
    throw ::gloo::InvalidOperationException(who() + ": the name of this host is too long: " + host_);
  }
  std::copy(text.begin(), text.end(), bytes.begin());
  return bytes;
}

void Group::connect_pair(int peer, const std::vector<char>& address, Millis timeout) {
  check_peer(peer);
  const std::lock_guard lock(mutex_);
  if (peer == 0) rank_0_.assign(address.begin(), std::find(address.begin(), address.end(), '\0'));
  named_.insert(peer);
  if (named_.size() + 1 == static_cast<size_t>(size_)) connect_through_rank_0(timeout);
}

void Group::connect_through_rank_0(Millis timeout) {
  const size_t space = rank_0_.find(' ');
  uint32_t port = 0;
  for (size_t i = space; i != std::string::npos && ++i < rank_0_.size() && port <= UINT16_MAX;) {
    port = rank_0_[i] >= '0' && rank_0_[i] <= '9' ? port * 10 + static_cast<uint32_t>(rank_0_[i] - '0')
                                                  : UINT16_MAX + 1;
  }
  if (port == 0 || port > UINT16_MAX) {
    throw ::gloo::InvalidOperationException(who() + ": '" + rank_0_ + "' is no address of a floe rank 0");
  }
  const auto deadline = Deadline::in(std::max(timeout, Millis(1)));
  auto client = TcpStore::connect(rank_0_.substr(0, space), static_cast<uint16_t>(port), deadline);
  if (!client.ok()) throw ::gloo::IoException(who() + ", connecting: " + client.status().message());
  Rank0Store rank_0{std::move(*client), {}};
  floe_store_t store = FLOE_STORE_INIT;
  store.user = &rank_0;
  store.set = &Rank0Store::set;
  store.get = &Rank0Store::get;
  store.remove = &Rank0Store::remove;
  const auto server = std::move(server_);
  connect(store, rank_0.error, timeout);
}

floe_comm_t* Group::comm() const {
  if (!comm_) throw ::gloo::InvalidOperationException(who() + " is not connected yet");
  return comm_.get();
}

void Group::check_peer(int peer) const {
  if (peer >= 0 && peer < size_ && peer != rank_) return;
  const std::string why =
      peer == rank_ ? "a rank exchanges no messages with itself" : "there is no such rank";
  throw ::gloo::InvalidOperationException(who() + ": peer " + std::to_string(peer) + ": " + why);
}

void Group::abort() const {
  if (comm_) (void)floe_comm_abort(comm_.get());
}

Courier& Group::courier() {
  floe_comm_t* const connected = comm();
  const std::lock_guard lock(mutex_);
  if (!courier_) courier_ = std::make_unique<Courier>(connected, rank_, size_);
  return *courier_;
}

}  // namespace floe::gloo_transport
