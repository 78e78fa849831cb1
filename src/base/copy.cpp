#include "base/copy.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace floe {
#if defined(__x86_64__)
namespace {

// As memcpy() does it, but memcpy() begins with loads from the end.
__attribute__((target("avx"))) void copy_by_avx(std::byte* to, const std::byte* from, uint64_t bytes) {
  constexpr uint64_t kVector = sizeof(__m256i), kStep = 4 * kVector;
  const uint64_t head = std::min(-reinterpret_cast<uintptr_t>(to) % kVector, bytes);
  std::memcpy(to, from, head);
  uint64_t at = head;
  for (; at + kStep <= bytes; at += kStep) {
    __m256i vectors[kStep / kVector];
    for (uint64_t i = 0; i < kStep / kVector; ++i)
      vectors[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + i * kVector));
    for (uint64_t i = 0; i < kStep / kVector; ++i)
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + at + i * kVector), vectors[i]);
  }
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace

void copy_by_vectors(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;  // memcpy() may not be given null pointers
  if (bytes <= kSmallCopy || !__builtin_cpu_supports("avx"))
    std::memcpy(to, from, bytes);
  else
    copy_by_avx(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}
#else
void copy_by_vectors(void* to, const void* from, uint64_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}
#endif

}  // namespace floe
