#include "fabric/libfabric.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace floe::fabric {
namespace {

bool same(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags &&
         std::memcmp(&a.sa_mask, &b.sa_mask, sizeof a.sa_mask) == 0;
}

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

std::recursive_mutex& SignalGuard::mutex() {
  static std::recursive_mutex* const the_one =
      new std::recursive_mutex;  // leaked: used until the last thread ends
  return *the_one;
}

SignalGuard::SignalGuard() : alone_(mutex()) {
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, nullptr, &before_[signal]);
}

// Only what has changed is put back: another thread may have set a handler of its own meanwhile.
SignalGuard::~SignalGuard() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && !same(now, before_[signal]))
      ::sigaction(signal, &before_[signal], nullptr);
  }
}

Result<Libfabric> Libfabric::load() {
  const SignalGuard guard;
  // By SONAME: if the process has loaded a libfabric already, that one is used, never a second version.
  void* const library = ::dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return error(
        FLOE_ERR_TRANSPORT,
        "ranks that share no memory need libfabric, which cannot be loaded ({}): install libfabric1, or "
        "set LD_LIBRARY_PATH to the folder of libfabric.so.1",
        ::dlerror());
  Libfabric lib;
  decltype(&::fi_version) version = nullptr;
  if (!find(library, "fi_version", &version) || !find(library, "fi_getinfo", &lib.getinfo_) ||
      !find(library, "fi_freeinfo", &lib.freeinfo_) || !find(library, "fi_dupinfo", &lib.dupinfo_) ||
      !find(library, "fi_fabric", &lib.fabric_) || !find(library, "fi_strerror", &lib.strerror_))
    return error(FLOE_ERR_TRANSPORT, "libfabric.so.1 lacks a function of its API: {}", ::dlerror());
  lib.version_ = version();
  if (FI_VERSION_LT(lib.version_, kApi))
    return error(FLOE_ERR_TRANSPORT, "libfabric {} is too old: floe needs 1.17 or later", lib.version());
  return lib;
}

std::string Libfabric::version() const {
  return fmt::format("{}.{}", FI_MAJOR(version_), FI_MINOR(version_));
}

std::string Libfabric::error_text(int code) const { return strerror_(std::abs(code)); }

Libfabric::Info Libfabric::getinfo(const char* node, uint64_t flags, const fi_info* hints, int* code) const {
  fi_info* list = nullptr;
  *code = getinfo_(kApi, node, nullptr, flags, hints, &list);
  return own(*code == 0 ? list : nullptr);
}

}  // namespace floe::fabric
