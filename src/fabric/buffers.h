// Packet buffers: slots of one size with stable addresses, in memory that the kernel provides when touched.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"

namespace floe::fabric {

struct Link;

// One operation of libfabric and its buffer. `context` comes first: a completion carries its address.
struct Slot {
  enum class Use : uint8_t { kReceive, kPacket, kCredit };

  fi_context2 context{};  // the provider's while the operation is under way (FI_CONTEXT, FI_CONTEXT2)
  Use use{};
  Link* link = nullptr;  // of a send
  std::byte* data = nullptr;

  static Slot& of(void* context) { return *static_cast<Slot*>(context); }
};

class Buffers {
 public:
  explicit Buffers(size_t slot_bytes) : slot_bytes_(slot_bytes) {}
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  size_t slot_bytes() const { return slot_bytes_; }
  size_t size() const { return slots_.size(); }
  // All slots, free or not.
  std::deque<Slot>& slots() { return slots_; }

  // Adds `count` free slots.
  Status grow(size_t count, Slot::Use use);
  // The slot used last, whose memory is warm; null if none is free.
  Slot* take();
  void give_back(Slot& slot) { free_.push_back(&slot); }

 private:
  struct Region {
    void* base;
    size_t bytes;
  };

  size_t slot_bytes_;
  std::vector<Region> regions_;
  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
};

}  // namespace floe::fabric
