// Hints for lines that go from core to core.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstdint>

namespace floe {

#if defined(__x86_64__)
// Not by __builtin_cpu_supports(), which in Clang 14 does not know this feature.
inline const bool kCanDemote = [] {
  constexpr unsigned kFeatures = 7, kCldemote = 1U << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) != 0 && (c & kCldemote) != 0;
}();
#endif

// __builtin_prefetch() alone GCC takes for nothing: it drops calls of functions that do no more than that.
inline void prefetch(const void* at) {
  __builtin_prefetch(at);
  asm volatile("");
}

// Has this core own the line that `at` is in, so that a store there need not wait for it.
// __builtin_prefetch() for writing only fetches it where the compiler may not use this instruction, which any
// x86-64 CPU takes.
inline void prefetch_to_write(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

// Moves the lines of [begin, begin + bytes) to the cache that all cores share, from where another one fetches
// them sooner than from this one's own. Nothing where the CPU has no such instruction.
inline void demote(const void* begin, uint64_t bytes) {
#if defined(__x86_64__)
  if (!kCanDemote) return;
  constexpr uint64_t kLine = 64;
  const uint64_t before = reinterpret_cast<uintptr_t>(begin) % kLine;
  const auto* const line = static_cast<const char*>(begin) - before;
  for (uint64_t at = 0; at < before + bytes; at += kLine) asm volatile("cldemote %0" : : "m"(line[at]));
#else
  static_cast<void>(begin), static_cast<void>(bytes);
#endif
}

// Fetches of more overlap, and a hint for each line takes longer than it saves.
constexpr uint64_t kMostDemoted = 8 << 10;

// The same for data that `flag` has published, and for it, if they are few enough to wait for.
inline void demote(const void* begin, uint64_t bytes, const std::atomic<uint64_t>& flag) {
  if (bytes > kMostDemoted) return;
  demote(begin, bytes);
  demote(&flag, sizeof(flag));
}

}  // namespace floe
