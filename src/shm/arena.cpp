#include "shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

// All of the host's memory, as far as limits let one file, and some such files beside each other, be so
// large.
uint64_t choose_size() {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
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
    const Status why = system_error(fmt::format("mapping {} bytes of shared memory", bytes_), errno);
    ::munmap(memory, bytes_);
    return why;
  }
  if (!own_) fd_.reset();  // the mapping is all that is needed of a peer's
  base_.store(static_cast<std::byte*>(memory), std::memory_order_release);  // pairs with base()
  return {};
}

bool Arena::contains(const void* memory, uint64_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(base()), at = reinterpret_cast<uintptr_t>(memory);
  return begin != 0 && at >= begin && at - begin <= bytes_ && bytes <= bytes_ - (at - begin);
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
  if (::mprotect(base() + offset, bytes, PROT_NONE) != 0 ||
      ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) != 0)
    return system_error(fmt::format("giving {} bytes back to the host", bytes), errno);
  return {};
}

}  // namespace floe
