// What client and server of the TCP store say to each other. Little-endian, fixed headers; a length is
// checked against its bound before anything is read or allocated for it.
//
//   client: Hello            server: Hello
//   client: Request key value   server: Answer value      (any number of times)
//
// A client has one request at a time, and closes the connection when it gives up waiting for an answer.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "boot/store.h"

namespace floe::tcp {

static_assert(std::endian::native == std::endian::little, "the headers below are written as they are");

struct Hello {
  char magic[8] = {'f', 'l', 'o', 'e', 's', 't', 'o', 'r'};
  uint32_t version = 1;
  uint32_t reserved = 0;

  bool operator==(const Hello&) const = default;
};
static_assert(sizeof(Hello) == 16);

enum Operation : uint32_t { kSet = 1, kGet = 2, kRemove = 3 };
enum Code : uint32_t { kDone = 0, kAbsent = 1, kFull = 2 };

struct Request {
  uint64_t timeout_ms = 0;  // of kGet
  uint32_t operation = 0;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  uint32_t reserved = 0;

  bool valid() const {
    return operation >= kSet && operation <= kRemove && key_bytes >= 1 && key_bytes <= Store::kMaxKey &&
           value_bytes <= (operation == kSet ? Store::kMaxValue : 0);
  }
  size_t body_bytes() const { return size_t{key_bytes} + value_bytes; }
};
static_assert(sizeof(Request) == 24);

struct Answer {
  uint32_t code = 0;
  uint32_t value_bytes = 0;

  bool valid() const { return code <= kFull && value_bytes <= Store::kMaxValue; }
};
static_assert(sizeof(Answer) == 8);

template <class Header>
void append(std::string& bytes, const Header& header) {
  bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
}

// The header at the start of `bytes`, which must be long enough.
template <class Header>
Header peek(std::string_view bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

}  // namespace floe::tcp
