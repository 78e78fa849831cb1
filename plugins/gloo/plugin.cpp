// libfloe_gloo.so: registers floe as a Gloo device of the PyTorch in this process when it is loaded.

#include <cstdio>
#include <string>

#include "device.h"
#include "errors.h"
#include "host.h"
#include "layout.h"

namespace floe::gloo_transport {
namespace {

constexpr const char* kKey = "FLOE";  // for GLOO_DEVICE_TRANSPORT

// Why no device can be made in this process, or "". The checks are made, and the key is registered, once.
const std::string& refusal() {
  static const std::string* const why = [] {
    auto* text = new std::string;  // never freed: read until the process has ended
    const auto host = Host::find();
    if (!host) {
      *text =
          "floe: libfloe_gloo.so must be loaded after PyTorch: import torch first, or set "
          "LD_PRELOAD=libfloe_gloo_preload.so";
      return text;
    }
    if (const std::string difference = why_not_r4(*host); !difference.empty()) {
      *text = "floe: the Gloo inside " + host->path() +
              " is not of revision R4 (PyTorch 2.9 to 2.15): " + difference +
              ". Use such a PyTorch, or backend='floe'";
    }
    // Also if the layout is refused: whoever asks for floe is then told why.
    const std::string problem = host->register_device(kKey, [](const std::string&, const std::string&, bool) {
      if (!refusal().empty()) throw ::gloo::InvalidOperationException(refusal());
      return std::make_shared<Device>(process_context());
    });
    if (text->empty() && !problem.empty()) *text = "floe: " + problem;
    return text;
  }();
  return *why;
}

__attribute__((constructor)) void on_load() {
  if (!refusal().empty()) std::fprintf(stderr, "%s\n", refusal().c_str());
}

}  // namespace
}  // namespace floe::gloo_transport

// For libfloe_gloo_preload.so: whether floe_gloo_make_device would make one.
extern "C" __attribute__((visibility("default"))) int floe_gloo_usable() {
  return floe::gloo_transport::refusal().empty();
}

// Throws ::gloo::InvalidOperationException with the reason if floe is not usable here.
__attribute__((visibility("default"))) std::shared_ptr<floe::gloo_abi::r4::Device>
floe_gloo_make_device() asm("floe_gloo_make_device");

std::shared_ptr<floe::gloo_abi::r4::Device> floe_gloo_make_device() {
  using namespace floe::gloo_transport;
  if (!refusal().empty()) throw ::gloo::InvalidOperationException(refusal());
  return std::make_shared<Device>(process_context());
}
