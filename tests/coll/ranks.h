// Ranks as threads of the test: each with a context and a communicator of its own.
#pragma once

#include <floe/floe.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "memory_store.h"

// The call succeeds; says why not.
#define EXPECT_FLOE_OK(call) EXPECT_EQ(FLOE_OK, (call)) << floe_last_error()
#define ASSERT_FLOE_OK(call) ASSERT_EQ(FLOE_OK, (call)) << floe_last_error()

namespace floe::test {

// Sanitizers make everything several times slower: loops there are shorter, never different.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct Rank {
  floe_context_t* context = nullptr;
  floe_comm_t* comm = nullptr;
  uint32_t rank = 0;
  uint32_t size = 1;
};

struct RankOptions {
  int32_t workers = 0;
  uint64_t timeout_ms = 60'000;
};

// Runs `body` on `size` threads, each a rank of one communicator, and destroys it right afterwards: a rank
// that is done does not wait for the others.
void run_ranks(uint32_t size, const std::function<void(Rank&)>& body, RankOptions options = {});

// One more communicator of the same ranks.
floe_comm_t* create_comm(floe_context_t* context, uint32_t rank, uint32_t size, const char* name,
                         MemoryStore& store, uint64_t timeout_ms = 60'000);

// Frees a request at the end of a test's scope.
class Request {
 public:
  Request() = default;
  Request(Request&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Request() { floe_request_free(handle_); }
  floe_request_t** out() { return &handle_; }
  floe_request_t* get() const { return handle_; }
  floe_status_t wait() { return floe_wait(handle_, FLOE_NO_TIMEOUT); }

 private:
  floe_request_t* handle_ = nullptr;
};

}  // namespace floe::test
