// What a shared library on disk exports, without loading it: for layouts of other machines, and of other
// years.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "layout.h"

namespace floe::gloo_transport {

// A 64-bit ELF file of x86-64 or AArch64. Addresses are those in the file, never to be followed.
class ElfFile final : public Symbols {
 public:
  // Throws std::runtime_error: not such a file, or damaged.
  explicit ElfFile(const std::string& path);
  ~ElfFile() override;

  std::optional<std::span<void* const>> vtable(const char* symbol) const override;
  void* function(const char* symbol) const override;

 private:
  struct Symbol {
    uint64_t address;
    uint64_t size;
  };
  class Bytes;
  void read_symbols(const Bytes& file, uint64_t offset, uint64_t bytes, uint64_t names, uint64_t names_bytes);
  void read_relocations(const Bytes& file, uint64_t offset, uint64_t bytes, uint16_t machine);

  std::map<std::string, Symbol, std::less<>> symbols_;
  std::vector<std::string> by_index_;   // names of the dynamic symbols
  std::map<uint64_t, uint64_t> words_;  // address of a word -> what it points to once loaded
  mutable std::map<std::string, std::vector<void*>> vtables_;
};

}  // namespace floe::gloo_transport
