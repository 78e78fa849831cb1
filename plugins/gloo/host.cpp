#include "host.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace floe::gloo_transport {
namespace {

constexpr const char* kRegistry = "_ZN4c10d18GlooDeviceRegistryB5cxx11Ev";
// Its last parameter tells that creators take (interface, hostname, lazy), as from PyTorch 2.8 on.
constexpr const char* kFactory =
    "_ZN4c10d17GlooDeviceFactory22makeDeviceForInterfaceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcE"
    "SaIcEEEb";

// c10::Registry<std::string, std::shared_ptr<Device>, const std::string&, const std::string&, bool> as
// c10/util/Registry.h lays it out; its Register() is inline and not exported.
struct Registry {
  std::unordered_map<std::string, Host::DeviceCreator> creators;
  std::unordered_map<std::string, uint32_t> priorities;
  bool terminate;
  const bool warning;
  std::unordered_map<std::string, std::string> help;
  std::mutex mutex;
};
constexpr uint32_t kDefaultPriority = 2;
static_assert(sizeof(Registry) == 56 + 56 + 8 + 56 + 40);

}  // namespace

std::optional<Host> Host::find() {
  void* handle = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (!handle) return std::nullopt;
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return std::nullopt;
  return Host(handle, map->l_name);
}

void* Host::function(const char* symbol) const { return dlsym(handle_, symbol); }

std::optional<std::span<void* const>> Host::vtable(const char* symbol) const {
  void* const address = dlsym(handle_, symbol);
  Dl_info info{};
  ElfW(Sym)* entry = nullptr;
  if (!address || !dladdr1(address, &info, reinterpret_cast<void**>(&entry), RTLD_DL_SYMENT) || !entry ||
      info.dli_saddr != address) {
    return std::nullopt;
  }
  // Two words stand before the functions: the offset to the top of the object, and its typeinfo.
  constexpr size_t kHeader = 2;
  const size_t words = entry->st_size / sizeof(void*);
  if (words < kHeader) return std::nullopt;
  return std::span(static_cast<void* const*>(address) + kHeader, words - kHeader);
}

std::string Host::register_device(const std::string& key, DeviceCreator creator) const {
  const auto accessor = reinterpret_cast<Registry* (*)()>(function(kRegistry));
  if (!accessor) return path_ + " has no registry of Gloo devices";
  if (!function(kFactory)) return path_ + " has a registry of Gloo devices of another form";
  Registry& registry = *accessor();
  const std::lock_guard lock(registry.mutex);
  // Gloo's own entry shows that the registry is what it is taken for.
  if (!registry.creators.contains("TCP")) return path_ + " has no TCP in its registry of Gloo devices";
  if (registry.creators.contains(key)) return key + " is registered already";
  registry.creators.emplace(key, std::move(creator));
  registry.priorities.emplace(key, kDefaultPriority);
  return "";
}

}  // namespace floe::gloo_transport
