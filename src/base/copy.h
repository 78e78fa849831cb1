// How floe copies what it carries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cpu.h"

namespace floe {

// Up to this the C library copies by vectors itself.
inline constexpr uint64_t kSmallCopy = 2048;

// memcpy() by vectors, and of more than kSmallCopy forwards, where the CPU has AVX. Null pointers may be
// given for 0 bytes.
void copy_by_vectors(void* to, const void* from, uint64_t bytes);

// Past the cache, by non-temporal stores, where the CPU has AVX: lines need not be read to be overwritten.
// What is copied is visible to whoever sees a later store.
void copy_non_temporal(std::byte* to, const std::byte* from, uint64_t bytes);

// Four pages at a time, as long as there are so many, where the CPU has AVX. By vectors of 16 bytes, not 32,
// it is a fifth slower.
inline constexpr uint64_t kFourPages = 16 << 10;
void copy_by_pages(void* to, const void* from, uint64_t bytes);

// By vectors, where the CPU has AVX, with each line, and the one that it goes to, asked for kFetchAhead bytes
// before it is copied. The string instruction does not wait for lines that it overwrites, but these stores
// would: of 64 and 256 KiB to memory that is in no cache they take 19 and 29 us, and 10 and 20 if it is asked
// for (Emerald Rapids).
inline constexpr uint32_t kFetchAhead = 2048;
void copy_ahead(void* to, const void* from, uint64_t bytes);

// The same from `shared`, which another core has written, and from `next` to there, line by line: where two
// cores exchange more than fits into a buffer. In one go each line is in the first-level cache when it is
// overwritten: 512 KiB and 1 MiB each way in pieces of 128 KiB take 41 and 111 us, and one copy after the
// other 49 and 126 (Emerald Rapids). None of the three overlap.
void swap_ahead(void* to, void* shared, const void* next, uint64_t bytes);

// Whether `bytes` that another core has written had better be asked for kFetchAhead bytes before they are
// used. What a CPU fetches by itself ends with a page, and an Intel's then waits .2 us for the next one's
// first lines: 32, 64, 128 and 256 KiB come at 13.6, 14, 15 and 15.3 GB/s with it, and at 11.3, 10.4, 14 and
// 14 without (Emerald Rapids). Not on others: prefetches have made a Zen 4 and 5 slower.
inline bool is_fetched_ahead(uint64_t bytes) {
  constexpr uint64_t kLeast = 8 << 10;  // of less it is level
  return bytes >= kLeast && is_intel();
}

// Whether this CPU, of Zen 3 or 4, had better copy by vectors what glibc before 2.40 copies by the string
// instruction. To what lies up to 31 bytes further into its page than the source, as all does that malloc()
// gives for a large array and that comes from the start of a page, that moves 2 to 3 GB/s, not 35. Elsewhere
// it is level, but where a result of 1 MiB or more comes from a core that shares the cache it takes twice the
// time as often as not.
inline bool copies_by_vectors() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam19h");
#else
  return false;
#endif
}

// The same by whichever way is fast here.
inline void copy_bytes(void* to, const void* from, uint64_t bytes) {
  constexpr uint64_t kMost = 1 << 20;  // more than the second-level cache holds glibc copies by vectors, too
  if (bytes > kSmallCopy && bytes <= kMost && copies_by_vectors()) return copy_by_vectors(to, from, bytes);
  if (bytes != 0) std::memcpy(to, from, bytes);
}

// The same for what another core has written.
inline void copy_from_core(void* to, const void* from, uint64_t bytes) {
  if (is_fetched_ahead(bytes)) return copy_ahead(to, from, bytes);
  copy_bytes(to, from, bytes);
}

// The same, and then, or meanwhile, what is at `next` to where that was.
inline void swap_from_core(void* to, uint64_t bytes, void* shared, const void* next, uint64_t next_bytes) {
  const uint64_t both = is_fetched_ahead(next_bytes) ? std::min(bytes, next_bytes) : 0;
  if (both != 0) swap_ahead(to, shared, next, both);
  const auto behind = [both](auto* at) { return static_cast<std::byte*>(const_cast<void*>(at)) + both; };
  copy_from_core(behind(to), behind(shared), bytes - both);
  copy_bytes(behind(shared), behind(next), next_bytes - both);
}

}  // namespace floe
