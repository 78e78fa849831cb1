// What other ranks need to put to a buffer, or to get from it. Gloo has keys from revision R4 on.
#pragma once

#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "errors.h"
#include "gloo_abi.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

namespace abi = gloo_abi::FLOE_GLOO_ABI;

class RemoteKey final : public abi::RemoteKey {
 public:
  RemoteKey(int rank, size_t size, uint64_t key) : abi::RemoteKey(rank, size), key_(key) {}

  // Text: programs pass keys on as C strings, too.
  std::string serialize() const override {
    return "floe " + std::to_string(rank) + ' ' + std::to_string(size) + ' ' + std::to_string(key_);
  }

  // Throws InvalidOperationException if `text` is nothing that serialize() returns.
  static std::unique_ptr<RemoteKey> parse(const std::string& text) {
    constexpr std::string_view kStart = "floe";
    uint64_t numbers[3] = {};
    const char* at = text.data() + kStart.size();
    const char* const end = text.data() + text.size();
    bool good = text.starts_with(kStart);
    for (uint64_t& number : numbers) {
      good = good && at < end && *at == ' ';
      if (!good) break;
      const auto [next, error] = std::from_chars(at + 1, end, number);
      good = error == std::errc();
      at = next;
    }
    if (!good || at != end || numbers[0] > INT32_MAX) {
      throw ::gloo::InvalidOperationException("floe: '" + text + "' is no key of floe's");
    }
    return std::make_unique<RemoteKey>(static_cast<int>(numbers[0]), numbers[1], numbers[2]);
  }

  uint64_t key() const { return key_; }

 private:
  uint64_t key_;
};

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
