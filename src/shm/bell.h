// Sleeping and waking. A rank that has waited long sleeps in epoll on one descriptor set (its bell, its
// peers' pidfds, the fabric's completion queue); a peer that publishes something rings its bell.
//
// Lost wake-ups are excluded by Dekker's pattern:
//   sleeper: sleeping = 1; fence; look for work once more; epoll_wait; sleeping = 0
//   waker:   publish;      fence; if (sleeping) write the eventfd
// Both fences are sequentially consistent, so at least one side sees the other's store.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/status.h"
#include "shm/cpu_board.h"

namespace floe {

// What is shared. `sleeping` is alone in its line: read by every peer after each publication, written only by
// a rank that goes to sleep or wakes up.
struct BellPage {
  alignas(128) std::atomic<uint32_t> sleeping;
  // Here as it is a rank's own for all its communicators, as the bell is.
  alignas(128) CpuBoard cpu;
};

// A mapped page and an eventfd: this rank's own bell, or a peer's.
class Bell {
 public:
  static Result<Bell> create();
  // Takes over the descriptors that a peer sent: its page (a sealed memfd) and its eventfd.
  static Result<Bell> attach(UniqueFd page, UniqueFd event);

  Bell(Bell&&) noexcept = default;
  Bell& operator=(Bell&&) noexcept = default;

  // Waker's side, after a sequentially consistent fence that follows the publication.
  void ring_if_sleeping() const {
    if (page_->sleeping.load(std::memory_order_relaxed) != 0) ring();
  }
  void ring() const;

  // Sleeper's side: one thread at a time.
  void begin_sleep() {
    page_->sleeping.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void end_sleep() { page_->sleeping.store(0, std::memory_order_seq_cst); }
  void clear() const;  // empties the eventfd

  CpuBoard& cpu() const { return page_->cpu; }

  int event_fd() const { return event_.get(); }
  int page_fd() const { return page_fd_.get(); }

 private:
  struct Unmap {
    void operator()(BellPage* page) const;
  };
  Bell(UniqueFd page_fd, UniqueFd event, BellPage* page)
      : page_fd_(std::move(page_fd)), event_(std::move(event)), page_(page) {}

  static Result<Bell> map(UniqueFd page_fd, UniqueFd event);

  UniqueFd page_fd_;
  UniqueFd event_;
  std::unique_ptr<BellPage, Unmap> page_;
};

}  // namespace floe
