#include "pending_operations.h"

#include <algorithm>
#include <utility>

namespace floe::gloo_transport {
namespace {

using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

// floe_wait watches one request. It is interrupted this often to see an abort, or that a younger
// operation has ended first.
constexpr Millis kFirstSlice{1};
constexpr Millis kLongestSlice{16};
// Keeps now + timeout from overflowing.
constexpr Millis kLongestTimeout = std::chrono::hours(24 * 365);

int source_of(const floe_request_t* request, int otherwise) {
  floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
  if (floe_request_info(request, &info) != FLOE_OK) return otherwise;
  return static_cast<int>(info.source);
}

}  // namespace

void PendingOperations::add(floe_request_t* request, int peer) {
  std::shared_ptr<floe_request_t> owned(request, [](floe_request_t* r) { (void)floe_request_free(r); });
  const std::lock_guard lock(mutex_);
  operations_.push_back({std::move(owned), peer});
  changed_.notify_all();
}

PendingOperations::Result PendingOperations::wait(Millis timeout) {
  const auto deadline = Clock::now() + std::min(timeout, kLongestTimeout);
  Millis slice = kFirstSlice;
  std::unique_lock lock(mutex_);
  while (true) {
    if (std::exchange(abort_, false)) return {Outcome::kAborted, kAnyPeer, {}};
    const auto left = std::max(Millis(0), std::chrono::ceil<Millis>(deadline - Clock::now()));
    if (operations_.empty()) {
      if (left == Millis(0)) return {Outcome::kTimedOut, kAnyPeer, {}};
      changed_.wait_until(lock, deadline);
      continue;
    }
    const std::shared_ptr<floe_request_t> oldest = operations_.front().request;
    lock.unlock();  // the request is shared: another waiter may take the operation meanwhile
    (void)floe_wait(oldest.get(), static_cast<uint64_t>(std::min(slice, left).count()));
    lock.lock();
    if (abort_) continue;
    if (auto result = take_ended()) return *std::move(result);
    if (left == Millis(0)) {
      return {Outcome::kTimedOut, operations_.empty() ? kAnyPeer : operations_.front().peer, {}};
    }
    slice = std::min(slice * 2, kLongestSlice);
  }
}

std::optional<PendingOperations::Result> PendingOperations::take_ended() {
  for (auto it = operations_.begin(); it != operations_.end(); ++it) {
    const floe_status_t status = floe_test(it->request.get());
    if (status == FLOE_IN_PROGRESS) continue;
    Result result{Outcome::kCompleted, it->peer, {}};
    if (status != FLOE_OK) {
      result.outcome = Outcome::kFailed;
      result.message = floe_last_error();
    } else if (it->peer == kAnyPeer) {
      result.peer = source_of(it->request.get(), it->peer);
    }
    operations_.erase(it);
    return result;
  }
  return std::nullopt;
}

void PendingOperations::abort_wait() {
  const std::lock_guard lock(mutex_);
  abort_ = true;
  changed_.notify_all();
}

bool PendingOperations::settled() {
  const std::lock_guard lock(mutex_);
  return std::all_of(operations_.begin(), operations_.end(),
                     [](const Operation& o) { return floe_test(o.request.get()) != FLOE_IN_PROGRESS; });
}

}  // namespace floe::gloo_transport
