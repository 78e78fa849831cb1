// Memory of a context that peers can map: one sealed, sparse memfd with room for all of the host's memory, of
// which pages exist once they are touched. Heap hands it out; MappedReduce reads and writes peers'.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace floe {

class Arena {
 public:
  // This context's own; `id` is random.
  static Result<std::shared_ptr<Arena>> create(uint64_t id);
  // A peer's: the same object for every communicator, and if the peer is a thread of this process, its own.
  // Refuses anything but a sealed memfd of `bytes`.
  static Result<std::shared_ptr<Arena>> attach(UniqueFd fd, uint64_t id, uint64_t bytes);

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  uint64_t id() const { return id_; }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }  // of one's own

  // Reserves addresses for it, once: a process that never uses it has none. Threads: any.
  Status map();
  // Null before map(). Acquire: pairs with the release in map(), which another thread may be in.
  std::byte* base() const { return base_.load(std::memory_order_acquire); }
  // Whether all of [memory, memory + bytes) is mapped from it and not fenced; whether any of it is.
  bool contains(const void* memory, uint64_t bytes) const;
  bool overlaps(uintptr_t begin, uint64_t bytes) const;

  // Of one's own, once it is mapped, whole pages: no access without open(); close() gives the memory back to
  // the host, and whoever opens it again finds zeros.
  Status open(uint64_t offset, uint64_t bytes);
  Status close(uint64_t offset, uint64_t bytes);
  // From now on no other process changes [memory, memory + bytes): the pages become private to this one, with
  // what they hold, and no more part of the arena. What threads of this process write meanwhile is not lost.
  Status fence(const void* memory, uint64_t bytes);

 private:
  struct Pages {
    uintptr_t begin, end;
  };
  Arena(UniqueFd fd, uint64_t id, uint64_t bytes, bool own);

  UniqueFd fd_;
  uint64_t id_;
  uint64_t bytes_;
  bool own_;
  pid_t process_;  // a forked child has the object, but not the mapping
  mutable std::mutex mapping_;
  std::atomic<std::byte*> base_{nullptr};
  std::vector<Pages> fenced_;  // under mapping_
};

}  // namespace floe
