/* Taking memory out of the caches of all cores. C, for flush.c too. */
#ifndef FLOE_BENCH_FLUSH_H
#define FLOE_BENCH_FLUSH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#if defined(__x86_64__) || defined(__aarch64__)
enum { kCanFlush = 1 };
#else
enum { kCanFlush = 0 };
#endif

static inline void floe_bench_flush(const void* data, size_t bytes) {
  const uintptr_t line = 64; /* no cache line of these processors is shorter */
  const uintptr_t end = (uintptr_t)data + bytes;
  for (uintptr_t at = (uintptr_t)data & ~(line - 1); at < end; at += line) {
#if defined(__x86_64__)
    _mm_clflush((const void*)at);
#elif defined(__aarch64__)
    __asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
#endif
  }
#if defined(__x86_64__)
  _mm_mfence();
#elif defined(__aarch64__)
  __asm__ volatile("dsb sy" : : : "memory");
#endif
}

#endif
