#include "comm/card.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace floe {
namespace {

using nlohmann::json;

struct NumberField {
  std::string_view name;
  uint64_t most;
};
constexpr std::array<NumberField, 6> kNumbers = {{{"version", UINT32_MAX},
                                                  {"size", UINT32_MAX},
                                                  {"key", UINT64_MAX},
                                                  {"nonce", UINT64_MAX},
                                                  {"pid", INT32_MAX},
                                                  {"engine", UINT64_MAX}}};
constexpr std::array<std::string_view, 11> kTexts = {
    "host", "hostname", "socket", "token", "shm", "provider", "cpus", "costs", "secret", "controls", "wire"};

// Takes the fields of one flat object as the parser meets them. There is no json object: its destructor
// allocates, and ends the process where there is no memory.
class Reader final : public json::json_sax_t {
 public:
  std::array<uint64_t, kNumbers.size()> numbers{};
  std::array<std::string, kTexts.size()> texts;

  bool complete() const { return seen_ == (1u << (kNumbers.size() + kTexts.size())) - 1; }

  bool number_unsigned(json::number_unsigned_t value) override {
    const auto* const field =
        std::find_if(kNumbers.begin(), kNumbers.end(), [&](const auto& f) { return f.name == key_; });
    if (field == kNumbers.end()) return !is_text();
    const auto index = static_cast<size_t>(field - kNumbers.begin());
    numbers[index] = value;
    seen_ |= 1u << index;
    return value <= field->most;
  }
  bool string(json::string_t& value) override {
    const auto index = static_cast<size_t>(std::find(kTexts.begin(), kTexts.end(), key_) - kTexts.begin());
    if (index == kTexts.size()) return !is_number();
    texts[index] = std::move(value);
    seen_ |= 1u << (kNumbers.size() + index);
    return true;
  }
  bool key(json::string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return depth_++ == 0; }
  bool end_object() override { return true; }
  bool null() override { return unknown(); }
  bool boolean(bool) override { return unknown(); }
  bool number_integer(json::number_integer_t) override { return unknown(); }
  bool number_float(json::number_float_t, const json::string_t&) override { return unknown(); }
  bool binary(json::binary_t&) override { return false; }
  bool start_array(size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool is_text() const { return std::find(kTexts.begin(), kTexts.end(), key_) != kTexts.end(); }
  bool is_number() const {
    return std::any_of(kNumbers.begin(), kNumbers.end(), [&](const auto& f) { return f.name == key_; });
  }
  bool unknown() const { return !is_text() && !is_number(); }

  std::string key_;
  int depth_ = 0;
  unsigned seen_ = 0;
};

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string Card::encode() const {
  const std::array<uint64_t, kNumbers.size()> numbers = {
      version, size, key, nonce, static_cast<uint64_t>(pid), engine};
  const std::array<const std::string*, kTexts.size()> texts = {
      &host, &hostname, &socket, &token, &shm, &provider, &cpus, &costs, &secret, &controls, &wire};
  std::string object;
  for (size_t i = 0; i < numbers.size(); ++i)
    object += fmt::format("{}\"{}\":{}", i == 0 ? '{' : ',', kNumbers[i].name, numbers[i]);
  for (size_t i = 0; i < texts.size(); ++i) object += fmt::format(",\"{}\":{}", kTexts[i], quoted(*texts[i]));
  return object + '}';
}

Result<Card> Card::decode(const std::string& text, uint32_t rank) {
  Reader r;
  if (!json::sax_parse(text, &r) || !r.complete())
    return error(FLOE_ERR_STORE, "rank {} gave no valid card: is the store used by something else?", rank);
  return Card{static_cast<uint32_t>(r.numbers[0]),
              static_cast<uint32_t>(r.numbers[1]),
              r.numbers[2],
              r.numbers[3],
              std::move(r.texts[0]),
              std::move(r.texts[1]),
              static_cast<int>(r.numbers[4]),
              std::move(r.texts[2]),
              std::move(r.texts[3]),
              std::move(r.texts[4]),
              std::move(r.texts[5]),
              std::move(r.texts[6]),
              std::move(r.texts[7]),
              r.numbers[5],
              std::move(r.texts[8]),
              std::move(r.texts[9]),
              std::move(r.texts[10])};
}

}  // namespace floe
