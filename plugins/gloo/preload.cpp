// libfloe_gloo_preload.so: with LD_PRELOAD, every Gloo device that PyTorch, or a program linked with libgloo,
// makes is floe's.
//
// It stands in front of the functions that make Gloo devices, and loads libfloe_gloo.so when one of them is
// called. So it needs nothing but libc, and a shell or any other program that inherits LD_PRELOAD is not
// touched. C++ only for its calling convention: a class that can't be copied by memcpy is returned through a
// hidden pointer, as std::shared_ptr is; the C++ library is not linked.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOE_FACTORY "_ZN4c10d17GlooDeviceFactory"
#define FLOE_STRING "ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
// Up to PyTorch 2.7, and since then, where they say whether to connect lazily.
#define FLOE_MAKE_FOR_INTERFACE FLOE_FACTORY "22makeDeviceForInterface" FLOE_STRING
#define FLOE_MAKE_FOR_INTERFACE_LAZY FLOE_MAKE_FOR_INTERFACE "b"
#define FLOE_MAKE_FOR_HOSTNAME FLOE_FACTORY "21makeDeviceForHostname" FLOE_STRING
#define FLOE_MAKE_FOR_HOSTNAME_LAZY FLOE_MAKE_FOR_HOSTNAME "b"
// Gloo's own, of (const gloo::transport::tcp::attr&).
#define FLOE_CREATE "_ZN4gloo9transport3tcp12CreateDeviceERKNS1_4attrE"
#define FLOE_CREATE_LAZY "_ZN4gloo9transport3tcp16CreateLazyDeviceERKNS1_4attrE"

namespace floe::gloo_preload {

// std::shared_ptr<gloo::transport::Device>, only ever passed on: by guaranteed elision it is constructed in
// the caller's storage by the function that really makes it.
struct SharedDevice {
  void* device;
  void* owner;
  SharedDevice(const SharedDevice&) = delete;
};

namespace {

// `lazy` is an argument too many for some: the calling conventions of all our machines allow that.
using Factory = SharedDevice (*)(const void* name_or_attr, bool lazy);
using MakeDevice = SharedDevice (*)(const void* interface, const void* hostname);

// The function that was called. Python loads PyTorch with RTLD_LOCAL, where RTLD_NEXT does not look; the
// library that called is the one to search. The program itself can't be opened by its path.
Factory original(const char* symbol, const void* caller) {
  Dl_info info{};
  void* library = nullptr;
  if (dladdr(caller, &info) && info.dli_fname) library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void* function = library ? dlsym(library, symbol) : nullptr;
  if (!function) function = dlsym(RTLD_NEXT, symbol);
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

// gloo::transport::tcp::attr starts with two std::string: hostname, interface.
struct Attr {
  char hostname[32];
  char interface[32];
};

#define FLOE_INTERPOSE(name, symbol, argument, interface, hostname)                                      \
  __attribute__((visibility("default"))) SharedDevice name(const void* argument, bool lazy) asm(symbol); \
  SharedDevice name(const void* argument, bool lazy) {                                                   \
    if (const MakeDevice make = floe_device()) return make(interface, hostname);                         \
    return original(symbol, __builtin_return_address(0))(argument, lazy);                                \
  }

FLOE_INTERPOSE(make_for_interface, FLOE_MAKE_FOR_INTERFACE, name, name, nullptr)
FLOE_INTERPOSE(make_for_interface_lazy, FLOE_MAKE_FOR_INTERFACE_LAZY, name, name, nullptr)
FLOE_INTERPOSE(make_for_hostname, FLOE_MAKE_FOR_HOSTNAME, name, nullptr, name)
FLOE_INTERPOSE(make_for_hostname_lazy, FLOE_MAKE_FOR_HOSTNAME_LAZY, name, nullptr, name)
FLOE_INTERPOSE(create, FLOE_CREATE, attr, static_cast<const Attr*>(attr)->interface,
               static_cast<const Attr*>(attr)->hostname)
FLOE_INTERPOSE(create_lazy, FLOE_CREATE_LAZY, attr, static_cast<const Attr*>(attr)->interface,
               static_cast<const Attr*>(attr)->hostname)

}  // namespace floe::gloo_preload
