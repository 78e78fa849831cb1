#include "boot/mac.h"

#include <sodium.h>

namespace floe {

static_assert(sizeof(Digest) == crypto_auth_hmacsha256_BYTES);

Digest mac(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> texts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(key.data()), key.size());
  for (const auto& text : texts)
    crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  Digest digest;
  crypto_auth_hmacsha256_final(&state, digest.data());
  return digest;
}

Digest mac(std::string_view key, std::string_view text) {
  return mac(std::as_bytes(std::span(key)), {std::as_bytes(std::span(text))});
}

bool equal(const Digest& a, const Digest& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace floe
