// Packet buffers: slots of one size with stable addresses, in memory that the kernel provides when touched.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"

namespace floe::fabric {

class Endpoint;
class Rail;
struct Link;

// One operation of libfabric and its buffer. `context` comes first: a completion carries its address.
struct Slot {
  enum class Use : uint8_t { kReceive, kPacket, kCredit };

  fi_context2 context{};  // the provider's while the operation is under way (FI_CONTEXT, FI_CONTEXT2)
  Use use{};
  Rail* rail = nullptr;  // that it belongs to
  Link* link = nullptr;  // of a send
  size_t bytes = 0;      // of a send
  std::byte* data = nullptr;
  void* descriptor = nullptr;  // of `data`, where it is registered

  static Slot& of(void* context) { return *static_cast<Slot*>(context); }
};

class Buffers {
 public:
  // Registered with `endpoint`, if that asks for it; outlives it.
  Buffers(Endpoint& endpoint, Rail& rail, Slot::Use use, size_t slot_bytes)
      : endpoint_(endpoint), rail_(rail), use_(use), slot_bytes_(slot_bytes) {}
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  size_t slot_bytes() const { return slot_bytes_; }
  size_t size() const { return slots_.size(); }
  // All slots, free or not.
  std::deque<Slot>& slots() { return slots_; }

  // Adds free slots until there are `count` in all.
  Status reserve(size_t count);
  // The slot used last, whose memory is warm; null if none is free.
  Slot* take();
  void give_back(Slot& slot) { free_.push_back(&slot); }

 private:
  struct Region {
    void* base;
    size_t bytes;
  };

  Endpoint& endpoint_;  // not touched by the destructor, which comes after it
  Rail& rail_;
  Slot::Use use_;
  size_t slot_bytes_;
  std::vector<Region> regions_;
  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
};

}  // namespace floe::fabric
