// libfloe_gloo.so: makes floe's Gloo devices, and registers them with the PyTorch in this process, if there
// is one, when it is loaded.

#include <floe/gloo.h>

#include <cstdio>
#include <string>

#include "errors.h"
#include "host.h"
#include "layout.h"
#include "make_device.h"

namespace floe::gloo_transport {
namespace {

constexpr const char* kKey = "FLOE";  // for GLOO_DEVICE_TRANSPORT

struct Decision {
  std::string refusal;  // why no device can be made in this process, or ""
  int revision = -1;
};

const Decision& decision();

std::shared_ptr<void> make(const std::string& interface, const std::string& hostname) {
  if (!decision().refusal.empty()) throw ::gloo::InvalidOperationException(decision().refusal);
  switch (decision().revision) {
    case 0: return make_device<0>(interface, hostname);
    case 2: return make_device<2>(interface, hostname);
    case 3: return make_device<3>(interface, hostname);
    default: return make_device<4>(interface, hostname);
  }
}

// The checks are made, and the key is registered, once.
const Decision& decision() {
  static const Decision* const made = [] {
    auto* result = new Decision;  // never freed: read until the process has ended
    const auto host = Host::find();
    if (!host) {
      result->refusal =
          "floe: libfloe_gloo.so must be loaded after PyTorch: import torch first, or set "
          "LD_PRELOAD=libfloe_gloo_preload.so. (Other programs link with libgloo, or with -rdynamic if they "
          "have Gloo inside.)";
      return result;
    }
    const Layout layout = identify(*host);
    result->revision = layout.revision;
    result->refusal = refusal_of(layout, host->path());
    if (!host->has_registry()) return result;
    // Also if the layout is refused: whoever asks for floe is then told why.
    const std::string problem = host->register_device(kKey, make);
    if (result->refusal.empty() && !problem.empty()) result->refusal = "floe: " + problem;
    return result;
  }();
  return *made;
}

__attribute__((constructor)) void on_load() {
  if (!decision().refusal.empty()) std::fprintf(stderr, "%s\n", decision().refusal.c_str());
}

}  // namespace
}  // namespace floe::gloo_transport

// For libfloe_gloo_preload.so: whether floe_gloo_make_device would make one.
extern "C" __attribute__((visibility("default"))) int floe_gloo_usable() {
  return floe::gloo_transport::decision().refusal.empty();
}

// A device as floe/gloo.h declares it; either name may be null. Throws ::gloo::InvalidOperationException with
// the reason if floe is not usable here.
__attribute__((visibility("default"))) std::shared_ptr<void> floe_gloo_make_device(
    const std::string* interface, const std::string* hostname) asm("floe_gloo_make_device");

std::shared_ptr<void> floe_gloo_make_device(const std::string* interface, const std::string* hostname) {
  return floe::gloo_transport::make(interface ? *interface : "", hostname ? *hostname : "");
}

__attribute__((visibility("default"))) std::shared_ptr<::gloo::transport::Device> floe::create_gloo_device(
    const std::string& interface, const std::string& hostname) {
  return std::static_pointer_cast<::gloo::transport::Device>(gloo_transport::make(interface, hostname));
}
