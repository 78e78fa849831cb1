// libfabric, loaded at run time: a single-host job never loads it, and one binary of floe works with 1.17
// and 2.x. Everything else of its API is inline code over tables that these functions hand out.
#pragma once

#include <rdma/fabric.h>
#include <signal.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace floe::fabric {

// Puts every signal's disposition back as it was. libinfinipath, which Debian's libfabric pulls in, installs
// handlers for SIGINT, SIGSEGV and others when it is loaded.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  // One thread at a time: what another one's library has installed must not be put back for what was there
  // before.
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> alone_;
  std::array<struct sigaction, NSIG> before_{};
};

class Libfabric {
 public:
  // The API version that is asked for; the least that is accepted.
  static constexpr uint32_t kApi = FI_VERSION(1, 17);

  // Takes up to 0.2 s the first time: constructors of providers' libraries sleep. Never unloaded.
  static Result<Libfabric> load();

  std::string version() const;  // "1.17"
  bool at_least(uint32_t major, uint32_t minor) const {
    return FI_VERSION_GE(version_, FI_VERSION(major, minor));
  }
  std::string error_text(int code) const;  // of -FI_E... or FI_E...

  struct InfoDeleter {
    decltype(&::fi_freeinfo) free = nullptr;
    void operator()(fi_info* info) const { free(info); }
  };
  using Info = std::unique_ptr<fi_info, InfoDeleter>;
  Info own(fi_info* info) const { return Info(info, {freeinfo_}); }
  Info new_info() const { return own(dupinfo_(nullptr)); }
  Info copy(const fi_info* info) const { return own(dupinfo_(info)); }
  // The list that matches, or null with *code set.
  Info getinfo(const char* node, uint64_t flags, const fi_info* hints, int* code) const;
  int open_fabric(fi_fabric_attr* attributes, fid_fabric** fabric) const {
    return fabric_(attributes, fabric, nullptr);
  }

 private:
  uint32_t version_ = 0;
  decltype(&::fi_getinfo) getinfo_ = nullptr;
  decltype(&::fi_freeinfo) freeinfo_ = nullptr;
  decltype(&::fi_dupinfo) dupinfo_ = nullptr;
  decltype(&::fi_fabric) fabric_ = nullptr;
  decltype(&::fi_strerror) strerror_ = nullptr;
};

}  // namespace floe::fabric
