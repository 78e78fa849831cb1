// How floe copies what it carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace floe {

// Up to this the C library copies by vectors, and from there on perhaps by x86's string instruction.
inline constexpr uint64_t kCopyPiece = 2048;

// memcpy() in pieces of kCopyPiece.
void copy_in_pieces(void* to, const void* from, uint64_t bytes);

// memcpy(), by vectors where x86's string instruction stumbles over the places: on a Zen 3 with glibc 2.36 it
// moves 2 to 3 GB/s, not 35, to what lies up to 31 bytes further into its page than the source, as all does
// that malloc() gives for a large array and that comes from the start of a page.
inline void copy_bytes(void* to, const void* from, uint64_t bytes) {
  constexpr uintptr_t kPage = 4096, kStumbles = 31;
  const uintptr_t ahead = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  if (bytes > kCopyPiece && ahead - 1 < kStumbles) return copy_in_pieces(to, from, bytes);
  if (bytes != 0) std::memcpy(to, from, bytes);  // which may not be given null pointers
}

}  // namespace floe
