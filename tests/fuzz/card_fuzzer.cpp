// What ranks read from the store: cards and endpoint addresses; and CPU lists, which cards hold, and how far
// these are.
#include "base/settings.h"
#include "comm/card.h"
#include "fabric/address.h"
#include "topo/spread.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto card = floe::Card::decode(text, 1); card.ok()) {
    // What is understood survives the way back.
    if (floe::Card::decode(card->encode(), 1)->encode() != card->encode()) __builtin_trap();
    (void)card->who(1);
  }
  if (const auto address = floe::fabric::EndpointAddress::parse(text); address.ok()) {
    const auto again = floe::fabric::EndpointAddress::parse(address->to_text());
    if (!again.ok() || again->names != address->names || again->id != address->id) __builtin_trap();
  }
  if (const auto spread = floe::Spread::decode(text); spread.ok())
    if (*floe::Spread::decode(spread->encode()) != *spread) __builtin_trap();
  (void)floe::parse_cpu_list(text);
  return 0;
}
