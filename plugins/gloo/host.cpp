#include "host.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace floe::gloo_transport {
namespace {

constexpr const char* kDevice = "_ZTVN4gloo9transport3tcp6DeviceE";
constexpr const char* kRegistry = "_ZN4c10d18GlooDeviceRegistryB5cxx11Ev";
// Its last parameter tells that creators take (interface, hostname, lazy), as from PyTorch 2.8 on.
constexpr const char* kFactory =
    "_ZN4c10d17GlooDeviceFactory22makeDeviceForInterfaceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcE"
    "SaIcEEE";
constexpr const char* kFactoryOfLazy =
    "_ZN4c10d17GlooDeviceFactory22makeDeviceForInterfaceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcE"
    "SaIcEEEb";

// c10::Registry<std::string, std::shared_ptr<Device>, const std::string&, const std::string&[, bool]> as
// c10/util/Registry.h lays it out; its Register() is inline and not exported.
template <class Creator>
struct Registry {
  std::unordered_map<std::string, Creator> creators;
  std::unordered_map<std::string, uint32_t> priorities;
  bool terminate;
  const bool warning;
  std::unordered_map<std::string, std::string> help;
  std::mutex mutex;
};
constexpr uint32_t kDefaultPriority = 2;
using LazyCreator = std::function<std::shared_ptr<void>(const std::string&, const std::string&, bool)>;
static_assert(sizeof(Registry<LazyCreator>) == 56 + 56 + 8 + 56 + 40);

template <class Creator>
std::string add(void* accessor, const std::string& path, const std::string& key, Creator creator) {
  Registry<Creator>& registry = *reinterpret_cast<Registry<Creator>* (*)()>(accessor)();
  const std::lock_guard lock(registry.mutex);
  // Gloo's own entry shows that the registry is what it is taken for.
  if (!registry.creators.contains("TCP")) return path + " has no TCP in its registry of Gloo devices";
  if (registry.creators.contains(key)) return key + " is registered already";
  registry.creators.emplace(key, std::move(creator));
  registry.priorities.emplace(key, kDefaultPriority);
  return "";
}

// The path of a loaded library whose file name starts with `start`; "" if there is none.
std::string loaded(std::string_view start) {
  struct Search {
    std::string_view start;
    std::string found;
  } search{start, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* user) {
        auto& wanted = *static_cast<Search*>(user);
        const std::string_view path = info->dlpi_name;
        if (!path.substr(path.rfind('/') + 1).starts_with(wanted.start)) return 0;
        wanted.found = path;
        return 1;
      },
      &search);
  return search.found;
}

}  // namespace

std::optional<Host> Host::find() {
  for (const char* start : {"libtorch_cpu.so", "libgloo.so"}) {
    const std::string path = loaded(start);
    if (path.empty()) continue;
    // Symbols are looked for in what it needs, too: Debian's PyTorch has Gloo in libgloo.
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) return Host(handle, path);
  }
  void* const program = dlopen(nullptr, RTLD_NOW);
  if (program && dlsym(program, kDevice)) return Host(program, "this program");
  return std::nullopt;
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

bool Host::has_registry() const { return function(kRegistry) != nullptr; }

std::string Host::register_device(const std::string& key, DeviceCreator creator) const {
  void* const accessor = function(kRegistry);
  if (!accessor) return path_ + " has no registry of Gloo devices";
  if (function(kFactoryOfLazy)) {
    return add(accessor, path_, key, LazyCreator([creator](const std::string& i, const std::string& h, bool) {
                 return creator(i, h);
               }));
  }
  if (function(kFactory)) return add(accessor, path_, key, std::move(creator));
  return path_ + " has a registry of Gloo devices of another form";
}

}  // namespace floe::gloo_transport
