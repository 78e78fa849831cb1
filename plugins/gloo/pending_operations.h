// The sends, or the receives, that are under way on one buffer.
#pragma once

#include <floe/floe.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace floe::gloo_transport {

// Gloo waits for "one more completion" of a buffer, not for a certain operation, so a wait ends with
// whichever of them completes. Any thread may call any function.
class PendingOperations {
 public:
  enum class Outcome { kCompleted, kFailed, kAborted, kTimedOut };
  struct Result {
    Outcome outcome;
    int peer = kAnyPeer;  // whom the message went to or came from; if timed out, whom the oldest waits for
    std::string message;  // if failed; if timed out, what the oldest waits for, or ""
  };
  static constexpr int kAnyPeer = -1;

  // Takes the requests; `peer` is the destination or the source, kAnyPeer if that is not known yet. `posted`,
  // of some sends, completes when the peer has posted its receive: a wait ends when both have. Returns
  // `request`, for who uses it while others may wait for it.
  std::shared_ptr<floe_request_t> add(floe_request_t* request, int peer, floe_request_t* posted = nullptr);

  // Waits until one operation has ended and forgets it, also if none has been added yet. `timeout` 0 or
  // less looks once.
  Result wait(std::chrono::milliseconds timeout);

  // Ends one wait: the one under way, or else the next.
  void abort_wait();

  // True if no operation uses the buffer any more.
  bool settled();

 private:
  struct Operation {
    std::shared_ptr<floe_request_t> request;
    std::shared_ptr<floe_request_t> posted;  // or null
    int peer;
  };
  std::optional<Result> take_ended();
  Result timed_out() const;

  std::mutex mutex_;
  std::condition_variable changed_;   // an operation was added, or abort_ set
  std::deque<Operation> operations_;  // oldest first
  bool abort_ = false;
};

}  // namespace floe::gloo_transport
