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

std::shared_ptr<floe_request_t> owned(floe_request_t* request) {
  return {request, [](floe_request_t* r) { (void)floe_request_free(r); }};
}

bool under_way(const std::shared_ptr<floe_request_t>& request) {
  return floe_test(request.get()) == FLOE_IN_PROGRESS;
}

std::string not_posted(int peer) { return "rank " + std::to_string(peer) + " has not posted its receive"; }

}  // namespace

std::shared_ptr<floe_request_t> PendingOperations::add(floe_request_t* request, int peer,
                                                       floe_request_t* posted) {
  Operation added{owned(request), posted ? owned(posted) : nullptr, peer};
  const std::lock_guard lock(mutex_);
  operations_.push_back(added);
  changed_.notify_all();
  return added.request;
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
    const Operation oldest = operations_.front();
    lock.unlock();  // the requests are shared: another waiter may take the operation meanwhile
    const auto& first = oldest.posted && !under_way(oldest.request) ? oldest.posted : oldest.request;
    (void)floe_wait(first.get(), static_cast<uint64_t>(std::min(slice, left).count()));
    lock.lock();
    if (abort_) continue;
    if (auto result = take_ended()) return *std::move(result);
    if (left == Millis(0)) return timed_out();
    slice = std::min(slice * 2, kLongestSlice);
  }
}

PendingOperations::Result PendingOperations::timed_out() const {
  if (operations_.empty()) return {Outcome::kTimedOut, kAnyPeer, {}};
  const Operation& oldest = operations_.front();
  const bool sent = oldest.posted && !under_way(oldest.request);
  return {Outcome::kTimedOut, oldest.peer, sent ? not_posted(oldest.peer) : ""};
}

std::optional<PendingOperations::Result> PendingOperations::take_ended() {
  for (auto it = operations_.begin(); it != operations_.end(); ++it) {
    floe_status_t status = floe_test(it->request.get());
    const bool sent = status == FLOE_OK && it->posted;
    if (sent) status = floe_test(it->posted.get());
    if (status == FLOE_IN_PROGRESS) continue;
    Result result{Outcome::kCompleted, it->peer, {}};
    if (status != FLOE_OK) {
      result.outcome = Outcome::kFailed;
      result.message = (sent ? not_posted(it->peer) + ": " : "") + floe_last_error();
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
  return std::none_of(operations_.begin(), operations_.end(),
                      [](const Operation& o) { return under_way(o.request); });
}

}  // namespace floe::gloo_transport
