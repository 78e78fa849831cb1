#include "shm/bell.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace floe {

void Bell::Unmap::operator()(BellPage* page) const { ::munmap(page, sizeof(BellPage)); }

Result<Bell> Bell::map(UniqueFd page_fd, UniqueFd event) {
  void* memory = ::mmap(nullptr, sizeof(BellPage), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd.get(), 0);
  if (memory == MAP_FAILED) return system_error("mapping a bell page", errno);
  return Bell(std::move(page_fd), std::move(event), static_cast<BellPage*>(memory));
}

bool Bell::fence_all() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

Result<Bell> Bell::create() {
  UniqueFd page(::memfd_create("floe-bell", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page.valid()) return system_error("memfd_create for a bell page", errno);
  if (::ftruncate(page.get(), sizeof(BellPage)) != 0) return system_error("sizing a bell page", errno);
  if (::fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("sealing a bell page", errno);
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return system_error("eventfd", errno);
  auto bell = map(std::move(page), std::move(event));
  // Not before Linux 4.16, nor in a sandbox that forbids it. Registered is the process: once is enough.
  if (bell.ok() && ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
      fence_all())
    bell->page_->fences_all.store(1, std::memory_order_relaxed);  // before anybody else has the page
  return bell;
}

Result<Bell> Bell::attach(UniqueFd page, UniqueFd event) {
  struct stat info {};
  const int seals = ::fcntl(page.get(), F_GET_SEALS);
  if (::fstat(page.get(), &info) != 0 || info.st_size < static_cast<off_t>(sizeof(BellPage)) || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0)
    return error(FLOE_ERR_SYSTEM, "a peer's bell page is not a sealed memfd of the right size");
  auto bell = map(std::move(page), std::move(event));
  if (bell.ok()) bell->page_fd_.reset();  // the mapping is all that is needed of a peer's page
  return bell;
}

// The waker's fence, which pairs with the one in begin_sleep(), if it has had none.
void Bell::look_again() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if ((page_->state.load(std::memory_order_relaxed) & BellPage::kSleeps) != 0) ring();
}

void Bell::ring() const {
  // EAGAIN means that the counter is full, so the sleeper will wake anyway.
  [[maybe_unused]] const int result = ::eventfd_write(event_.get(), 1);
}

void Bell::clear() const {
  eventfd_t count = 0;
  [[maybe_unused]] const int result = ::eventfd_read(event_.get(), &count);
}

}  // namespace floe
