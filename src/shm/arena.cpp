#include "shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

namespace floe {
namespace {

// Arenas that this process knows, by id.
struct Known {
  static Known& instance() {
    static Known* const registry = new Known;  // leaked: used until the last thread ends
    return *registry;
  }
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Arena>> arenas;
};

uint64_t page_bytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

// All of the host's memory, as far as limits let one file, and some such files beside each other, be so
// large.
uint64_t choose_size() {
  const uint64_t page = page_bytes();
  uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page;
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0) bytes = std::min<uint64_t>(bytes, limit.rlim_cur);
  constexpr uint64_t kPartOfAddresses = 4;
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min<uint64_t>(bytes, limit.rlim_cur / kPartOfAddresses);
  return bytes / page * page;
}

}  // namespace

Arena::Arena(UniqueFd fd, uint64_t id, uint64_t bytes, bool own)
    : fd_(std::move(fd)), id_(id), bytes_(bytes), own_(own), process_(::getpid()) {}

Result<std::shared_ptr<Arena>> Arena::create(uint64_t id) {
  const uint64_t bytes = choose_size();
  UniqueFd fd(::memfd_create("floe-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return system_error("memfd_create for memory that peers can map", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return system_error(fmt::format("a sparse memfd of {} bytes", bytes), errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("sealing memory that peers can map", errno);
  std::shared_ptr<Arena> arena(new Arena(std::move(fd), id, bytes, true));
  Known& known = Known::instance();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.arenas, [](const auto& entry) { return entry.second.expired(); });
  known.arenas[id] = arena;
  return arena;
}

Result<std::shared_ptr<Arena>> Arena::attach(UniqueFd fd, uint64_t id, uint64_t bytes) {
  Known& known = Known::instance();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.arenas, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Arena>& entry = known.arenas[id];
  if (auto arena = entry.lock(); arena && arena->process_ == ::getpid()) {
    if (arena->bytes() == bytes) return arena;
    return error(FLOE_ERR_SYSTEM, "a peer's memory has {} bytes, and had {}", bytes, arena->bytes());
  }
  struct stat info {};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (bytes == 0 || ::fstat(fd.get(), &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      static_cast<uint64_t>(info.st_size) != bytes)
    return error(FLOE_ERR_SYSTEM, "a peer's memory is not a sealed memfd of {} bytes", bytes);
  std::shared_ptr<Arena> arena(new Arena(std::move(fd), id, bytes, false));
  entry = arena;
  return arena;
}

Arena::~Arena() {
  // In a forked child something else may be there.
  if (std::byte* const memory = base(); memory && process_ == ::getpid()) ::munmap(memory, bytes_);
}

Status Arena::map() {
  const std::lock_guard lock(mapping_);
  if (base()) return {};
  // Without access at first, and unlocked: else mlockall(MCL_FUTURE) would make every page exist.
  void* const memory = ::mmap(nullptr, bytes_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (memory == MAP_FAILED)
    return system_error(fmt::format("reserving {} bytes of addresses for shared memory", bytes_), errno);
  ::munlock(memory, bytes_);
  // With 4 KiB pages a rank that works on several ranks' buffers at once would look for addresses more than
  // it adds. A kernel that has none for shared memory says so, and does without.
  ::madvise(memory, bytes_, MADV_HUGEPAGE);
  // A forked child must neither keep the memory alive nor write to it. A core dump would have all of it.
  const bool ready = ::madvise(memory, bytes_, MADV_DONTFORK) == 0 &&
                     ::madvise(memory, bytes_, MADV_DONTDUMP) == 0 &&
                     (own_ || ::mprotect(memory, bytes_, PROT_READ | PROT_WRITE) == 0);
  if (!ready) {
    Status why = system_error(fmt::format("mapping {} bytes of shared memory", bytes_), errno);
    ::munmap(memory, bytes_);
    return why;
  }
  if (!own_) fd_.reset();  // the mapping is all that is needed of a peer's
  base_.store(static_cast<std::byte*>(memory), std::memory_order_release);  // pairs with base()
  return {};
}

bool Arena::contains(const void* memory, uint64_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(base()), at = reinterpret_cast<uintptr_t>(memory);
  if (begin == 0 || at < begin || at - begin > bytes_ || bytes > bytes_ - (at - begin)) return false;
  const std::lock_guard lock(mapping_);
  return std::none_of(fenced_.begin(), fenced_.end(),
                      [&](const Pages& pages) { return at < pages.end && pages.begin < at + bytes; });
}

bool Arena::overlaps(uintptr_t begin, uint64_t bytes) const {
  const auto mine = reinterpret_cast<uintptr_t>(base());
  return mine != 0 && (begin < mine ? mine - begin < bytes : begin - mine < bytes_);
}

Status Arena::open(uint64_t offset, uint64_t bytes) {
  if (::mprotect(base() + offset, bytes, PROT_READ | PROT_WRITE) != 0)
    return system_error(fmt::format("making {} bytes accessible", bytes), errno);
  return {};
}

Status Arena::close(uint64_t offset, uint64_t bytes) {
  ::madvise(base() + offset, bytes, MADV_DONTNEED);  // fenced pages are not the file's
  if (::mprotect(base() + offset, bytes, PROT_NONE) != 0 ||
      ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) != 0)
    return system_error(fmt::format("giving {} bytes back to the host", bytes), errno);
  return {};
}

Status Arena::fence(const void* memory, uint64_t bytes) {
  const uint64_t page = page_bytes();
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const Pages pages{at / page * page, (at + bytes + page - 1) / page * page};
  auto* const begin = reinterpret_cast<std::byte*>(pages.begin);
  const uint64_t length = pages.end - pages.begin;
  const std::lock_guard lock(mapping_);
  // In the place of the shared mapping, in one step: what is written before lands in the file, and is seen
  // here, what is written after lands in a copy. The flags of map() are gone with the old mapping.
  // By its number, because ThreadSanitizer takes mmap() for a write to all of it.
  if (::syscall(SYS_mmap, begin, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_.get(),
                static_cast<off_t>(begin - base())) == -1 ||
      ::madvise(begin, length, MADV_DONTFORK) != 0 || ::madvise(begin, length, MADV_DONTDUMP) != 0)
    return system_error(fmt::format("making {} bytes private", length), errno);
  // A private page is the file's until something is written to it here: its own value does. Exchanged in one
  // step, because other threads may use the page, too.
  for (uint64_t offset = 0; offset < length; offset += page) {
    std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(begin + offset));
    uint64_t value = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(value, value, std::memory_order_relaxed)) {
    }
  }
  fenced_.push_back(pages);
  return {};
}

}  // namespace floe
