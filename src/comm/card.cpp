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
  const auto is_number = [&](const char* field) {  // else it would be converted, whatever it is
    return j.contains(field) && j[field].is_number_unsigned();
  };
  try {
    if (j.is_object() && is_number("version") && is_number("size") && is_number("key") &&
        is_number("nonce") && is_number("pid"))
      return Card{j.at("version"), j.at("size"),     j.at("key"),      j.at("nonce"),
                  j.at("host"),    j.at("hostname"), j.at("pid"),      j.at("socket"),
                  j.at("token"),   j.at("shm"),      j.at("provider"), j.at("cpus")};
  } catch (const json::exception&) {  // a field is missing or has another type
  }
  return error(FLOE_ERR_STORE, "rank {} gave no valid card: is the store used by something else?", rank);
}

}  // namespace floe
