// An operation under way: what a request handle points to, and what the engine drives.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/packet.h"
#include "base/status.h"

namespace floe {

enum class Kind : uint8_t {
  kSend = 0,
  kRecv,
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier,
  kAllGatherV,
  kReduceScatterV,
  kAllToAll,
  kAllToAllV,
  kGather,
  kGatherV,
  kScatter,
  kScatterV,
  kSplit,     // what floe_comm_split exchanges: an all_gather of its own
  kCreation,  // the barriers by which ranks know that all have a new communicator
};

constexpr size_t kKinds = static_cast<size_t>(Kind::kCreation) + 1;

// What the descriptor says of blocks: their count, if they are all equal; kAllGatherV, kReduceScatterV: the
// sum of the counts, and their digest in `root`; the other v-forms: nothing, as each pair of ranks agrees on
// a block between them alone, so that messages may turn out to have the wrong size.
bool is_v_form(uint8_t kind);

// What all_reduce's says in `root`: the type in which data travels between hosts, 0 for its own.

// "all_reduce (bfloat16 x 1048576, sum)".
std::string describe(const Descriptor& descriptor);
// Equal on ranks that agree. Enough bits to tell real mistakes apart; never zero.
inline uint32_t hash(Descriptor d) {
  // splitmix64's finaliser over the fields (Steele et al. 2014).
  const auto mix = [](uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  };
  const auto [fields, count] = std::bit_cast<std::array<uint64_t, 2>>(d);
  return static_cast<uint32_t>(mix(fields + (count + 1) * 0x9e3779b97f4a7c15)) | 1;
}

// FLOE_ERR_MISMATCH, naming both ranks and what each called.
Status mismatch(uint32_t rank, const Descriptor& called, uint32_t other, const Descriptor& other_called);

// The same when ranks agree on all but the size of a block, which `from` sends to `to`.
Status size_mismatch(const Descriptor& called, uint32_t from, uint64_t sent_bytes, uint32_t to,
                     uint64_t expected_bytes);

// All members but `complete_` are touched under the engine's lock only.
class Operation {
 public:
  using Callback = void (*)(void* user, floe_status_t status, const char* message);

  explicit Operation(const Descriptor& descriptor) : descriptor_(descriptor) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Acquire: pairs with the release in finish(); status, info and the caller's buffers are final.
  bool complete() const { return complete_.load(std::memory_order_acquire); }
  const Status& status() const { return status_; }  // once complete
  const Descriptor& descriptor() const { return descriptor_; }

  // Whether this operation can't end before `rank` has done something.
  virtual bool waits_for(uint32_t rank) const = 0;

  void started(uint64_t sequence, std::string group, uint64_t timeout_ms) {
    sequence_ = sequence;
    group_ = std::move(group);
    start_ = coarse_now();
    timeout_ms_ = timeout_ms;
    deadline_ = Deadline::after_ms(start_ + kTick, timeout_ms);  // never early
  }
  uint64_t sequence() const { return sequence_; }
  const Deadline& deadline() const { return deadline_; }
  uint64_t timeout_ms() const { return timeout_ms_; }
  double elapsed(Clock::time_point now = Clock::now()) const {
    return std::chrono::duration<double>(now - start_).count();
  }
  // "all_reduce #412 (bfloat16 x 1048576, sum) on 'world'".
  std::string title() const;

  // Makes it complete and calls the callback. The operation must not be used by the engine afterwards.
  void finish(Status status);
  // False if there is one already. Called at once if complete.
  bool set_callback(Callback callback, void* user);

  uint32_t source = 0;  // of a completed receive
  uint64_t bytes = 0;
  bool probed = false;  // peers have been told what this operation is
  bool warned = false;  // that it takes long

 private:
  Descriptor descriptor_;
  Status status_;
  std::string group_;
  uint64_t sequence_ = 0;
  Clock::time_point start_{};
  Deadline deadline_ = Deadline::never();
  uint64_t timeout_ms_ = 0;
  Callback callback_ = nullptr;
  void* callback_user_ = nullptr;
  std::atomic<bool> complete_{false};
};

}  // namespace floe
