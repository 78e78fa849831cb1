// What two hosts say to each other on their control connection. Little-endian, fixed sizes.
//
//   caller: Hello               called: Hello Proof
//   caller: Proof               called: Welcome           then both: Record Record ...
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace floe::control {

static_assert(std::endian::native == std::endian::little, "the headers below are written as they are");

struct Hello {
  std::array<char, 8> magic = {'f', 'l', 'o', 'e', 'c', 't', 'l', '\0'};
  uint32_t protocol = 1;
  uint32_t version = 0;   // floe's
  uint64_t comm = 0;      // the communicator's key
  uint64_t settings = 0;  // digest of what all ranks have announced: versions, settings, addresses
  uint32_t from = 0;      // hosts, by number
  uint32_t to = 0;
  std::array<uint8_t, 32> nonce{};
};
static_assert(sizeof(Hello) == 72 && std::has_unique_object_representations_v<Hello>);

// HMAC-SHA256 of the role and both hellos.
using Proof = std::array<uint8_t, 32>;

using Welcome = std::array<char, 8>;
constexpr Welcome kWelcome = {'w', 'e', 'l', 'c', 'o', 'm', 'e', '\0'};

struct Record {
  enum Kind : uint32_t { kDied = 1, kLeft = 2 };
  uint32_t kind = 0;
  uint32_t reserved = 0;
  uint64_t engine = 0;  // of the rank that it is about, which is one of the writer's host
};
static_assert(sizeof(Record) == 16 && std::has_unique_object_representations_v<Record>);

}  // namespace floe::control
