// Sleeping and waking. A rank that has waited long sleeps in epoll on one descriptor set (its bell, its
// peers' pidfds, the fabric's completion queue); a peer that publishes something rings its bell.
//
// Lost wake-ups are excluded by Dekker's pattern:
//   sleeper: state = kSleeps; fence; look for work once more; epoll_wait; state = 0
//   waker:   publish;         fence; if (state & kSleeps) write the eventfd
// Both fences are sequentially consistent, so at least one side sees the other's store. The waker's, which
// waits until what was published has left its core, is a good part of what a small operation takes: where all
// ranks of a host have Linux's membarrier(2), the sleeper has it executed on all cores instead, and wakers
// only keep the compiler from changing the order. As that interrupts the others, who sleeps all the time asks
// its wakers for their fence: once it has had all cores execute one with kAsks up, no waker misses that, and
// as long as it stays up sleeps need none. A waker that sees anything but 0 has its fence, and looks again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/status.h"
#include "shm/cpu_board.h"

namespace floe {

// What is shared. `state` is alone in its line: read by every peer after each publication, written only by a
// rank that goes to sleep or wakes up.
struct BellPage {
  static constexpr uint32_t kSleeps = 1;  // its owner is to be woken
  static constexpr uint32_t kAsks = 2;    // and wakers are to have their fence
  alignas(128) std::atomic<uint32_t> state;
  std::atomic<uint32_t> fences_all;  // whether its owner can have all cores execute a fence; never changes
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

  // Whether wakers need no fence, if the owner knows of them when it goes to sleep.
  bool fences_all() const { return page_->fences_all.load(std::memory_order_relaxed) != 0; }

  // Waker's side, after a fence that follows the publication: a sequentially consistent one, or where all
  // bells of the host fences_all() one of the compiler alone.
  void ring_if_sleeping() const {
    if (page_->state.load(std::memory_order_relaxed) != 0) [[unlikely]]
      look_again();
  }
  void ring() const;

  // Sleeper's side: one thread at a time. `unfenced`: whether some wakers have no fence unless asked. It may
  // become true at any time before their first publication: read after `state` is up, so that they see that
  // if it was false. `often`: whether to ask them. The result is false if the kernel has refused the fence,
  // as it may later (seccomp(2), or no memory): a waker may not be heard then, so the sleep must be short.
  [[nodiscard]] bool begin_sleep(const std::atomic<bool>& unfenced, bool often) {
    page_->state.store(BellPage::kSleeps | (often ? BellPage::kAsks : 0), std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Before this store it was kAsks, and is not 0 since: wakers have their fence, whatever is stored now.
    const bool heard = asked_ || !unfenced.load(std::memory_order_seq_cst) || fence_all();
    asked_ = often && heard;
    return heard;
  }
  void end_sleep() {
    clear();
    page_->state.store(asked_ ? BellPage::kAsks : 0, std::memory_order_seq_cst);
  }

  CpuBoard& cpu() const { return page_->cpu; }

  int event_fd() const { return event_.get(); }
  int page_fd() const { return page_fd_.get(); }

 private:
  struct Unmap {
    void operator()(BellPage* page) const;
  };
  Bell(UniqueFd page_fd, UniqueFd event, BellPage* page)
      : page_fd_(std::move(page_fd)), event_(std::move(event)), page_(page) {}

  void look_again() const;
  void clear() const;       // empties the eventfd
  static bool fence_all();  // on all cores that run threads of processes with a bell that can
  static Result<Bell> map(UniqueFd page_fd, UniqueFd event);

  UniqueFd page_fd_;
  UniqueFd event_;
  std::unique_ptr<BellPage, Unmap> page_;
  bool asked_ = false;  // kAsks is up, and no waker misses it
};

}  // namespace floe
