#include "comm/card.h"

#include <nlohmann/json.hpp>

namespace floe {

using nlohmann::json;

std::string Card::encode() const {
  return json{{"version", version}, {"size", size},         {"key", key},           {"nonce", nonce},
              {"host", host},       {"hostname", hostname}, {"pid", pid},           {"socket", socket},
              {"token", token},     {"shm", shm},           {"provider", provider}, {"cpus", cpus}}
      .dump();
}

Result<Card> Card::decode(const std::string& text, uint32_t rank) {
  const json j = json::parse(text, nullptr, false);
  const auto is_number = [&](const char* field,
                             uint64_t most) {  // else it would be converted, whatever it is
    return j.contains(field) && j[field].is_number_unsigned() && j[field].get<uint64_t>() <= most;
  };
  try {
    if (j.is_object() && is_number("version", UINT32_MAX) && is_number("size", UINT32_MAX) &&
        is_number("key", UINT64_MAX) && is_number("nonce", UINT64_MAX) && is_number("pid", INT32_MAX))
      return Card{j.at("version"), j.at("size"),     j.at("key"),      j.at("nonce"),
                  j.at("host"),    j.at("hostname"), j.at("pid"),      j.at("socket"),
                  j.at("token"),   j.at("shm"),      j.at("provider"), j.at("cpus")};
  } catch (const json::exception&) {  // a field is missing or has another type
  }
  return error(FLOE_ERR_STORE, "rank {} gave no valid card: is the store used by something else?", rank);
}

}  // namespace floe
