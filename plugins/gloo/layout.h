// Which of the layouts that gloo_abi.h declares has the host's Gloo?
#pragma once

#include <cstddef>
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

constexpr size_t kRevisions = 5;

struct Layout {
  int revision = -1;       // of README.md's table; -1: none of them
  std::string difference;  // then: from the revision that is closest

  // R1 is known by name only.
  bool supported() const { return revision >= 0 && revision != 1; }
};

// Compares what the host exports with every revision. Gloo's own tcp transport and its store wrapper stand
// for the interfaces, whose vtables are abstract and not exported.
Layout identify(const Symbols& host);

// "PyTorch 2.8": where a revision was found.
const char* seen_in(int revision);

// "", or why a layout in the library at `path` can't be served, and what to do.
std::string refusal_of(const Layout& layout, const std::string& path);

}  // namespace floe::gloo_transport
