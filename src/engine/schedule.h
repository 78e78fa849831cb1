// A schedule: a collective algorithm as data. Steps send, receive, reduce and copy ranges of buffers and
// name the steps they need; what runs it (processes, threads of a test, a simulator) is not its concern.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

namespace floe {

using StepId = uint32_t;

enum class Buffer : uint8_t { kSend, kRecv, kScratch };

// Bytes [offset, offset + bytes) of a buffer. `narrow`: of a collective of float32, elements are kept as
// bfloat16 there; a copy, or a sum, from or to such a range converts.
struct Range {
  Buffer buffer = Buffer::kSend;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool narrow = false;
};

struct Step {
  enum class Kind : uint8_t { kSend, kReceive, kReduce, kCopy };
  Kind kind{};
  uint32_t peer = 0;           // kSend, kReceive
  uint16_t tag = 0;            // of the message, equal on both sides
  Range range;                 // what is sent, received, or written
  std::vector<Range> sources;  // kReduce: in the order of summation; kCopy: one
  std::vector<StepId> needs;   // steps that must have ended
  bool partial = false;        // kReduce: others will be added, so that FLOE_AVG does not divide yet
  StepId reader = 0;           // kReceive: see only_reader()
};

// Steps in an order in which each comes after those it needs.
class Schedule {
 public:
  StepId send(uint32_t peer, uint16_t tag, Range range, std::vector<StepId> needs = {}) {
    return add({Step::Kind::kSend, peer, tag, range, {}, std::move(needs)});
  }
  StepId receive(uint32_t peer, uint16_t tag, Range range, std::vector<StepId> needs = {}) {
    return add({Step::Kind::kReceive, peer, tag, range, {}, std::move(needs)});
  }
  StepId reduce(Range to, std::vector<Range> sources, std::vector<StepId> needs, bool partial = false) {
    return add({Step::Kind::kReduce, 0, 0, to, std::move(sources), std::move(needs), partial});
  }
  StepId copy(Range to, Range from, std::vector<StepId> needs = {}) {
    return add({Step::Kind::kCopy, 0, 0, to, {from}, std::move(needs)});
  }
  // `reader`, a sum or copy that needs these receives, is the only step that reads what they bring: it may
  // take that from the packet, and what it would have been written to stays as it was.
  void only_reader(StepId reader, const std::vector<StepId>& receives) {
    for (const StepId receive : receives) steps_[receive].reader = reader;
  }
  StepId add(Step step) {
    steps_.push_back(std::move(step));
    return static_cast<StepId>(steps_.size() - 1);
  }
  // Room for `bytes` more bytes of scratch; returns where it starts. Throws for more than there are
  // addresses.
  uint64_t scratch(uint64_t bytes) {
    constexpr uint64_t kMost = uint64_t{1} << 62;
    if (bytes > kMost || scratch_bytes_ > kMost) throw std::bad_alloc();
    const uint64_t at = scratch_bytes_;
    scratch_bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }

  const std::vector<Step>& steps() const { return steps_; }
  uint64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  std::vector<Step> steps_;
  uint64_t scratch_bytes_ = 0;
};

}  // namespace floe
