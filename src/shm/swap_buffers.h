// Buffers that two ranks send back and forth: who has read a message in one writes its next message there.
//
// A line that has just come over from the other core is fast to write, and one that lies in that core's cache
// is not: a ring's are there when they come round again. Two ranks that exchange messages go on with the same
// few buffers, which stay in their caches; where messages go one way only, the writer has soon given its
// buffers away, and writes into its ring.
//
// A buffer is its reader's from the release of the writer's head, in whose record its number is, to that of
// its own: the two cursors of the rings order everything, and nobody acknowledges anything. Of a packet in
// parts each has a record that names the buffer, and the last one's hands it over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "shm/segment.h"

namespace floe {

class SwapBuffers {
 public:
  static constexpr uint32_t kEach = SegmentLayout::kSwapBuffers, kAll = 2 * kEach;

  // `own` and `peers`: where those begin that this rank has at first, and its peer. `own_first`: numbers
  // count from this rank's, so that both count alike.
  SwapBuffers(std::byte* own, std::byte* peers, bool own_first, const SegmentLayout& layout)
      : halves_{own_first ? own : peers, own_first ? peers : own},
        bytes_(layout.swap_bytes),
        distance_(layout.swap_distance()) {
    const uint32_t first = own_first ? 0 : kEach;
    for (uint32_t i = 0; i < kEach; ++i) push(first + i);
    behind_ring_ = ((1u << SegmentLayout::kSwapsBehindRing) - 1) << first;
  }

  size_t bytes() const { return bytes_; }  // of each
  bool empty() const { return count_ == 0; }
  // Whether it has those that its ring may go on through: of its own the ones that it takes last.
  bool all_behind_ring() const { return (owned_ & behind_ring_) == behind_ring_; }
  std::byte* at(uint32_t index) const { return halves_[index / kEach] + index % kEach * distance_; }
  // The one that this rank read last. There is one.
  uint32_t take() {
    const uint32_t index = stack_[--count_];
    owned_ &= ~(1u << index);
    return index;
  }
  // Whether the peer may have written there.
  bool is_peers(uint32_t index) const { return index < kAll && (owned_ >> index & 1) == 0; }
  // This rank has read what the peer wrote there.
  void give(uint32_t index) { push(index); }

  // While a packet is handed over that has a buffer to itself, its reader may write the next one there.
  void begin_reading(uint32_t index) { reading_ = index; }
  std::optional<uint32_t> reading() const { return reading_; }
  void answer() { reading_.reset(); }  // the buffer is the peer's again
  void end_reading() {
    if (reading_) give(*reading_);
    reading_.reset();
  }

 private:
  void push(uint32_t index) {
    stack_[count_++] = static_cast<uint8_t>(index);
    owned_ |= 1u << index;
  }

  std::array<std::byte*, 2> halves_;
  size_t bytes_, distance_;
  std::array<uint8_t, kAll> stack_{};
  uint32_t count_ = 0;
  uint32_t owned_ = 0;        // bits
  uint32_t behind_ring_ = 0;  // the same
  std::optional<uint32_t> reading_;
};

}  // namespace floe
