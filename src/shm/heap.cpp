#include "shm/heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace floe {
namespace {

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

uint64_t memory_of_host() { return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes(); }

// msync(2) fails if a page is not mapped, and does nothing else with this flag.
bool is_mapped(uintptr_t begin, uint64_t bytes) {
  const uintptr_t first = begin / page_bytes() * page_bytes();
  return ::msync(reinterpret_cast<void*>(first), begin + bytes - first, MS_ASYNC) == 0;
}

}  // namespace

Heap::~Heap() {
  for (const auto& [begin, range] : ranges_)
    if (range.mapped != 0) ::munmap(reinterpret_cast<void*>(begin), range.mapped);
}

Status Heap::check_new(uintptr_t begin, uint64_t bytes) const {
  if (ranges_.size() >= kMostRanges)
    return error(FLOE_ERR_SYSTEM, "the context has {} memory ranges already, the most there can be",
                 ranges_.size());
  const auto after = ranges_.lower_bound(begin);
  const bool hits_next = after != ranges_.end() && after->first - begin < bytes;
  const bool hits_previous =
      after != ranges_.begin() && std::prev(after)->first + std::prev(after)->second.bytes > begin;
  if (hits_next || hits_previous)
    return error(FLOE_ERR_ARGUMENT,
                 "{} bytes at {:#x} overlap memory that is allocated or registered already", bytes, begin);
  return {};
}

Result<void*> Heap::allocate(uint64_t bytes) {
  if (bytes > memory_of_host())
    return error(FLOE_ERR_SYSTEM, "{} bytes are more than this host has: {}", bytes, memory_of_host());
  const size_t mapped = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  UniqueFd fd(::memfd_create("floe-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return system_error("memfd_create for floe_mem_alloc", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(mapped)) != 0)
    return system_error(fmt::format("floe_mem_alloc of {} bytes", bytes), errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("sealing memory of floe_mem_alloc", errno);
  const std::lock_guard lock(mutex_);
  void* const memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return system_error(fmt::format("mapping {} bytes", bytes), errno);
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  // A registered range may have been unmapped behind floe's back; then its address can come again.
  Status fits = check_new(begin, mapped);
  if (fits.ok() && ::madvise(memory, mapped, MADV_DONTFORK) != 0)
    fits = system_error("madvise(MADV_DONTFORK)", errno);
  if (!fits.ok()) {
    ::munmap(memory, mapped);
    return fits;
  }
  ranges_.emplace(begin, Range{bytes, mapped, std::move(fd)});
  return memory;
}

Result<Heap::Ranges::iterator> Heap::find(void* memory, bool allocated) {
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(memory));
  if (found == ranges_.end() || (found->second.mapped != 0) != allocated)
    return error(FLOE_ERR_ARGUMENT,
                 "{} is not the start of memory that this context has {}: it never was, or is no more",
                 fmt::ptr(memory), allocated ? "allocated" : "registered");
  return found;
}

Status Heap::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory, true);
  if (!found.ok()) return found.status();
  ::munmap(memory, (*found)->second.mapped);
  ranges_.erase(*found);
  return {};
}

Status Heap::add(void* memory, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  if (bytes > UINTPTR_MAX - begin || !is_mapped(begin, bytes))
    return error(FLOE_ERR_ARGUMENT, "{} bytes at {} are not all mapped", bytes, fmt::ptr(memory));
  const std::lock_guard lock(mutex_);
  FLOE_TRY(check_new(begin, bytes));
  ranges_.emplace(begin, Range{bytes, 0, UniqueFd()});
  return {};
}

Status Heap::remove(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory, false);
  if (!found.ok()) return found.status();
  ranges_.erase(*found);
  return {};
}

Heap::Usage Heap::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage;
  for (const auto& [begin, range] : ranges_) {
    (range.mapped != 0 ? usage.allocations : usage.registrations) += 1;
    (range.mapped != 0 ? usage.allocated_bytes : usage.registered_bytes) += range.bytes;
  }
  return usage;
}

}  // namespace floe
