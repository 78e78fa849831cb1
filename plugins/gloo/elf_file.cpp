#include "elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "base/fd.h"

namespace floe::gloo_transport {

// The file mapped, every access checked.
class ElfFile::Bytes {
 public:
  explicit Bytes(const std::string& path) : path_(path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd.valid() || ::fstat(fd.get(), &status) != 0) damaged(std::strerror(errno));
    size_ = static_cast<size_t>(status.st_size);
    if (size_ < sizeof(Elf64_Ehdr)) damaged("it is no ELF file");
    void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapped == MAP_FAILED) damaged(std::strerror(errno));
    data_ = static_cast<const char*>(mapped);
  }
  ~Bytes() { ::munmap(const_cast<char*>(data_), size_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  template <class T>
  T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, view(offset, sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view view(uint64_t offset, uint64_t bytes) const {
    if (offset > size_ || bytes > size_ - offset) damaged("it ends too early");
    return {data_ + offset, bytes};
  }
  [[noreturn]] void damaged(const char* why) const { throw std::runtime_error(path_ + ": " + why); }

 private:
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

ElfFile::ElfFile(const std::string& path) {
  const Bytes file(path);
  const auto header = file.at<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    file.damaged("it is no 64-bit little-endian ELF file");
  }
  if (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64)
    file.damaged("it is for another machine");
  std::vector<Elf64_Shdr> sections;
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    sections.push_back(file.at<Elf64_Shdr>(header.e_shoff + uint64_t{i} * sizeof(Elf64_Shdr)));
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    read_symbols(file, section.sh_offset, section.sh_size, names.sh_offset, names.sh_size);
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_RELA) {
      read_relocations(file, section.sh_offset, section.sh_size, header.e_machine);
    }
  }
}

ElfFile::~ElfFile() = default;

void ElfFile::read_symbols(const Bytes& file, uint64_t offset, uint64_t bytes, uint64_t names,
                           uint64_t names_bytes) {
  const std::string_view table = file.view(names, names_bytes);
  for (uint64_t i = 0; i < bytes / sizeof(Elf64_Sym); ++i) {
    const auto symbol = file.at<Elf64_Sym>(offset + i * sizeof(Elf64_Sym));
    if (symbol.st_name >= table.size()) file.damaged("a symbol has no name");
    const std::string_view rest = table.substr(symbol.st_name);
    by_index_.emplace_back(rest.substr(0, rest.find('\0')));
    if (symbol.st_shndx == SHN_UNDEF) continue;
    symbols_.insert_or_assign(by_index_.back(), Symbol{symbol.st_value, symbol.st_size});
  }
}

void ElfFile::read_relocations(const Bytes& file, uint64_t offset, uint64_t bytes, uint16_t machine) {
  const bool x86 = machine == EM_X86_64;
  const uint64_t relative = x86 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE;
  const uint64_t absolute = x86 ? R_X86_64_64 : R_AARCH64_ABS64;
  for (uint64_t i = 0; i < bytes / sizeof(Elf64_Rela); ++i) {
    const auto entry = file.at<Elf64_Rela>(offset + i * sizeof(Elf64_Rela));
    const uint64_t type = ELF64_R_TYPE(entry.r_info), index = ELF64_R_SYM(entry.r_info);
    const auto addend = static_cast<uint64_t>(entry.r_addend);
    if (type == relative) {
      words_[entry.r_offset] = addend;
    } else if (type == absolute && index < by_index_.size()) {
      const auto symbol = symbols_.find(by_index_[index]);
      if (symbol != symbols_.end()) words_[entry.r_offset] = symbol->second.address + addend;
    }
  }
}

std::optional<std::span<void* const>> ElfFile::vtable(const char* symbol) const {
  const auto found = symbols_.find(std::string_view(symbol));
  constexpr uint64_t kWord = sizeof(uint64_t), kHeader = 2 * kWord;
  // A vtable has a few dozen words; a damaged file may say anything.
  constexpr uint64_t kLargest = 1 << 16;
  if (found == symbols_.end() || found->second.size < kHeader || found->second.size > kLargest) {
    return std::nullopt;
  }
  const auto [built, is_new] = vtables_.try_emplace(symbol);
  for (uint64_t at = kHeader; is_new && at + kWord <= found->second.size; at += kWord) {
    const auto word = words_.find(found->second.address + at);
    built->second.push_back(word == words_.end() ? nullptr : reinterpret_cast<void*>(word->second));
  }
  return built->second;
}

void* ElfFile::function(const char* symbol) const {
  const auto found = symbols_.find(std::string_view(symbol));
  return found == symbols_.end() ? nullptr : reinterpret_cast<void*>(found->second.address);
}

}  // namespace floe::gloo_transport
