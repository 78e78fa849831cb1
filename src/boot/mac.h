// Keys and proofs: HMAC-SHA256, by libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace floe {

using Digest = std::array<uint8_t, 32>;

// HMAC-SHA256 of the texts, one after the other; `key` may have any length.
Digest mac(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> texts);
Digest mac(std::string_view key, std::string_view text);

// In a time that does not tell where they differ.
bool equal(const Digest& a, const Digest& b);

}  // namespace floe
