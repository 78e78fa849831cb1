#include "shm/heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace floe {
namespace {

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// msync(2) fails if a page is not mapped, and does nothing else with this flag.
bool is_mapped(uintptr_t begin, uint64_t bytes) {
  const uintptr_t first = begin / page_bytes() * page_bytes();
  return ::msync(reinterpret_cast<void*>(first), begin + bytes - first, MS_ASYNC) == 0;
}

}  // namespace

Heap::Heap(Result<std::shared_ptr<Arena>> arena) : arena_(std::move(arena)) {
  if (arena_.ok()) free_.emplace(0, (*arena_)->bytes());
}

Heap::~Heap() {
  // A peer may keep the arena longer than this context, but not what is in it.
  for (const auto& [begin, range] : ranges_)
    if (range.taken != 0)
      (void)(*arena_)->close(begin - reinterpret_cast<uintptr_t>((*arena_)->base()), range.taken).ok();
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
  if (!arena_.ok()) return arena_.status();
  Arena& arena = **arena_;
  if (bytes > arena.bytes())
    return error(FLOE_ERR_SYSTEM, "{} bytes are more than a context can have here: {}", bytes, arena.bytes());
  FLOE_TRY(arena.map());
  const uint64_t taken = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  const std::lock_guard lock(mutex_);
  const auto room =
      std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.second >= taken; });
  if (room == free_.end())
    return error(FLOE_ERR_SYSTEM, "{} bytes in one piece are not free of the {} that a context can have here",
                 bytes, arena.bytes());
  const auto [offset, free] = *room;
  const auto begin = reinterpret_cast<uintptr_t>(arena.base()) + offset;
  // A registered range may have been unmapped behind floe's back; then its address can come again.
  FLOE_TRY(check_new(begin, taken));
  FLOE_TRY(arena.open(offset, taken));
  free_.erase(room);
  if (free != taken) free_.emplace(offset + taken, free - taken);
  ranges_.emplace(begin, Range{bytes, taken});
  return reinterpret_cast<void*>(begin);
}

void Heap::put_back(uint64_t offset, uint64_t bytes) {
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  if (after != free_.end() && offset + bytes == after->first) {
    bytes += after->second;
    free_.erase(after);
  }
  free_.emplace(offset, bytes);
}

Result<Heap::Ranges::iterator> Heap::find(void* memory, bool allocated) {
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(memory));
  if (found == ranges_.end() || (found->second.taken != 0) != allocated)
    return error(FLOE_ERR_ARGUMENT,
                 "{} is not the start of memory that this context has {}: it never was, or is no more",
                 fmt::ptr(memory), allocated ? "allocated" : "registered");
  return found;
}

Status Heap::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory, true);
  if (!found.ok()) return found.status();
  const auto [begin, range] = **found;
  const uint64_t offset = begin - reinterpret_cast<uintptr_t>((*arena_)->base());
  // A peer that was stopped in a write may still write to the file's pages: they must never be used again.
  const bool fenced = !(*arena_)->contains(memory, range.taken);
  FLOE_TRY((*arena_)->close(offset, range.taken));
  if (!fenced) put_back(offset, range.taken);
  ranges_.erase(*found);
  return {};
}

Status Heap::add(void* memory, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  if (bytes > UINTPTR_MAX - begin || !is_mapped(begin, bytes))
    return error(FLOE_ERR_ARGUMENT, "{} bytes at {} are not all mapped", bytes, fmt::ptr(memory));
  if (arena_.ok() && (*arena_)->overlaps(begin, bytes))
    return error(FLOE_ERR_ARGUMENT, "{} bytes at {} are floe's own, and need no registration", bytes,
                 fmt::ptr(memory));
  const std::lock_guard lock(mutex_);
  FLOE_TRY(check_new(begin, bytes));
  ranges_.emplace(begin, Range{bytes, 0});
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
    (range.taken != 0 ? usage.allocations : usage.registrations) += 1;
    (range.taken != 0 ? usage.allocated_bytes : usage.registered_bytes) += range.bytes;
  }
  return usage;
}

}  // namespace floe
