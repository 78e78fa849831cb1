// Does the host's Gloo have the layout that gloo_abi_r4.h declares?
#pragma once

#include <optional>
#include <span>
#include <string>

namespace floe::gloo_transport {

// What a library exports, by mangled name.
class Symbols {
 public:
  virtual ~Symbols() = default;
  // The virtual functions of a vtable, secondary tables included; nullopt if it is not exported.
  virtual std::optional<std::span<void* const>> vtable(const char* symbol) const = 0;
  // nullptr if it is not exported.
  virtual void* function(const char* symbol) const = 0;
};

// "" if the layout is revision R4, else what was found instead. Gloo's own tcp transport and PyTorch's store
// wrapper stand for the interfaces, whose vtables are abstract and not exported.
std::string why_not_r4(const Symbols& host);

}  // namespace floe::gloo_transport
