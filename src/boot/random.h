// Random numbers from the kernel: names, tokens and keys that nobody can guess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace floe {

// Fills it.
void fill_random(std::span<unsigned char> bytes);

uint64_t random_u64();

// `bytes` random bytes as twice as many lower-case hexadecimal digits.
std::string random_hex(size_t bytes);

}  // namespace floe
