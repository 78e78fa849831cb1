#include "fabric/address.h"

#include <netinet/in.h>
#include <rdma/fabric.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

namespace floe::fabric {
namespace {

constexpr std::string_view kFormat = "floe-fabric-1";

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

template <class Number>
std::optional<Number> number(std::string_view text, int base) {
  Number value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> items;
  for (size_t comma = 0; comma != list.npos; list.remove_prefix(comma == list.npos ? 0 : comma + 1)) {
    comma = list.find(',');
    items.emplace_back(list.substr(0, comma));
  }
  return items;
}

std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.empty() || hex.size() % 2 != 0 || hex.size() / 2 > EndpointAddress::kMaxName) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const auto byte = number<uint8_t>(hex.substr(i, 2), 16);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace

std::string EndpointAddress::to_text() const {
  std::string list;
  for (const std::string& name : names) list += fmt::format("{}{}", list.empty() ? "" : ",", to_hex(name));
  return fmt::format("{} {} {} {} {:016x} {}", kFormat, libfabric, provider, format, id, list);
}

bool EndpointAddress::is_loopback() const {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    if (format == FI_SOCKADDR_IN && name.size() >= sizeof(sockaddr_in)) {
      sockaddr_in at{};
      std::memcpy(&at, name.data(), sizeof at);
      return ntohl(at.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (format == FI_SOCKADDR_IN6 && name.size() >= sizeof(sockaddr_in6)) {
      sockaddr_in6 at{};
      std::memcpy(&at, name.data(), sizeof at);
      return IN6_IS_ADDR_LOOPBACK(&at.sin6_addr) != 0;
    }
    return false;
  });
}

Result<EndpointAddress> EndpointAddress::parse(std::string_view text) {
  const auto malformed = [](std::string_view what) {
    return error(FLOE_ERR_TRANSPORT, "a peer's fabric address is malformed: {}", what);
  };
  if (text.size() > kMaxText) return malformed("it is longer than 1 KiB");
  std::array<std::string_view, 6> field;
  for (size_t i = 0; i < field.size(); ++i) {
    const size_t space = text.find(' ');
    field[i] = text.substr(0, space);
    const bool last = i + 1 == field.size();
    if (field[i].empty() || !is_printable(field[i]) || (space == std::string_view::npos) != last)
      return malformed("it does not have six fields");
    if (!last) text.remove_prefix(space + 1);
  }
  if (field[0] != kFormat)
    return error(FLOE_ERR_MISMATCH,
                 "a peer's fabric address has format '{}', this rank's is '{}': use one version of "
                 "floe on all ranks",
                 field[0].substr(0, 32), kFormat);
  const auto format = number<uint32_t>(field[3], 10);
  const auto id = number<uint64_t>(field[4], 16);
  if (!format) return malformed("its address format is not a number");
  if (!id) return malformed("its endpoint id is not a number");
  std::vector<std::string> names;
  for (const std::string& hex : split(field[5])) {
    auto name = from_hex(hex);
    if (!name) return malformed("an endpoint name is not hexadecimal, or too long");
    names.push_back(std::move(*name));
  }
  if (names.size() > kMaxRails) return malformed("it has too many endpoint names");
  return EndpointAddress{std::string(field[1]), std::string(field[2]), *format, std::move(names), *id};
}

}  // namespace floe::fabric
