// An endpoint's address as ranks exchange it: one printable line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace floe::fabric {

struct EndpointAddress {
  std::string libfabric;           // "1.17"
  std::string provider;            // "net"
  uint32_t format = 0;             // libfabric's addr_format: what kind of bytes `name` holds
  std::vector<std::string> names;  // fi_getname's bytes, of each rail
  uint64_t id = 0;  // random, of this one endpoint: a restarted rank at the same port is another

  static constexpr size_t kMaxName = 256;
  static constexpr size_t kMaxRails = 8;
  static constexpr size_t kMaxText = 1024;

  std::string to_text() const;
  // Of the host's own, where no other host arrives.
  bool is_loopback() const;
  // The text comes from another rank: every field is checked. FLOE_ERR_MISMATCH for another format version.
  static Result<EndpointAddress> parse(std::string_view text);
};

}  // namespace floe::fabric
