// What the Gloo transport reads: a library on disk, and a key that a program has passed on.
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "base/fd.h"
#include "elf_file.h"
#include "remote_key.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace floe::gloo_transport;
  const floe::UniqueFd fd(::memfd_create("library", MFD_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), data, size) != static_cast<ssize_t>(size)) return 0;
  try {
    const ElfFile file("/proc/self/fd/" + std::to_string(fd.get()));
    (void)identify(file);
  } catch (const std::runtime_error&) {
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto key = FLOE_GLOO_ABI::RemoteKey::parse(text);
    const auto again = FLOE_GLOO_ABI::RemoteKey::parse(key->serialize());
    if (again->rank != key->rank || again->size != key->size || again->key() != key->key()) __builtin_trap();
  } catch (const gloo::Exception&) {
  }
  return 0;
}
