// libfloe_gloo_preload.so: with LD_PRELOAD, every Gloo device that PyTorch makes is floe's.
//
// It stands in front of the two functions with which PyTorch makes Gloo devices, and loads libfloe_gloo.so
// when one of them is called. So it needs nothing but libc, and a shell or any other program that inherits
// LD_PRELOAD is not touched. C++ only for its calling convention: a class that can't be copied by memcpy is
// returned through a hidden pointer, as std::shared_ptr is; the C++ library is not linked.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOE_MAKE_FOR_INTERFACE                                                                         \
  "_ZN4c10d17GlooDeviceFactory22makeDeviceForInterfaceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcE" \
  "SaIcEEEb"
#define FLOE_MAKE_FOR_HOSTNAME                                                                         \
  "_ZN4c10d17GlooDeviceFactory21makeDeviceForHostnameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcE" \
  "SaIcEEEb"

namespace floe::gloo_preload {

// std::shared_ptr<gloo::transport::Device>, only ever passed on: by guaranteed elision it is constructed in
// the caller's storage by the function that really makes it.
struct SharedDevice {
  void* device;
  void* owner;
  SharedDevice(const SharedDevice&) = delete;
};

namespace {

using Factory = SharedDevice (*)(const void* name, bool lazy);
using MakeDevice = SharedDevice (*)();

// PyTorch's own function. Python loads PyTorch with RTLD_LOCAL, where RTLD_NEXT does not look; the
// library that called is the one to search.
Factory original(const char* symbol, const void* caller) {
  Dl_info info{};
  void* library = nullptr;
  if (dladdr(caller, &info) && info.dli_fname) library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void* function = library ? dlsym(library, symbol) : nullptr;
  if (!function) {
    fprintf(stderr, "floe: %s, which LD_PRELOAD replaces, is not in its caller %s\n", symbol,
            info.dli_fname ? info.dli_fname : "(unknown)");
    abort();
  }
  return reinterpret_cast<Factory>(function);
}

// libfloe_gloo.so beside this library; nullptr, and a message, if it can't be loaded.
void* load_plugin() {
  constexpr const char* kName = "libfloe_gloo.so";
  char path[PATH_MAX];
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&load_plugin), &info) || !info.dli_fname) return nullptr;
  const char* slash = strrchr(info.dli_fname, '/');
  const int directory = slash ? static_cast<int>(slash + 1 - info.dli_fname) : 0;
  const int length = snprintf(path, sizeof path, "%.*s%s", directory, info.dli_fname, kName);
  if (length < 0 || static_cast<size_t>(length) >= sizeof path) return nullptr;
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fprintf(stderr, "floe: Gloo's own transport is used: %s\n", dlerror());
  return plugin;
}

// nullptr: Gloo's own transport is to be used.
MakeDevice floe_device() {
  const char* transport = getenv("GLOO_DEVICE_TRANSPORT");
  const bool asked = transport && strcmp(transport, "FLOE") == 0;
  if (transport && !asked) return nullptr;
  void* plugin = load_plugin();
  if (!plugin) return nullptr;  // if asked for, PyTorch raises: it knows no transport FLOE
  const auto usable = reinterpret_cast<int (*)()>(dlsym(plugin, "floe_gloo_usable"));
  const auto make = reinterpret_cast<MakeDevice>(dlsym(plugin, "floe_gloo_make_device"));
  // If asked for and not usable, it throws the reason.
  return make && usable && (asked || usable()) ? make : nullptr;
}

}  // namespace

__attribute__((visibility("default"))) SharedDevice make_for_interface(const void* interface, bool lazy) asm(
    FLOE_MAKE_FOR_INTERFACE);
__attribute__((visibility("default"))) SharedDevice make_for_hostname(const void* hostname,
                                                                      bool lazy) asm(FLOE_MAKE_FOR_HOSTNAME);

SharedDevice make_for_interface(const void* interface, bool lazy) {
  if (const MakeDevice make = floe_device()) return make();
  return original(FLOE_MAKE_FOR_INTERFACE, __builtin_return_address(0))(interface, lazy);
}

SharedDevice make_for_hostname(const void* hostname, bool lazy) {
  if (const MakeDevice make = floe_device()) return make();
  return original(FLOE_MAKE_FOR_HOSTNAME, __builtin_return_address(0))(hostname, lazy);
}

}  // namespace floe::gloo_preload
