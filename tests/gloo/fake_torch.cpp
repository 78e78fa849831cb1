// A libtorch_cpu.so as the plugin sees it, with a Gloo that floe does not know: its device has a function
// less than R4's. Its registry of devices is of the known form.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace gloo::transport::tcp {

class __attribute__((visibility("default"))) Device {
 public:
  virtual ~Device();
  virtual std::string str() const;
  virtual const std::string& getPCIBusID() const;
  virtual int getInterfaceSpeed() const;
  virtual void createContext(int rank, int size);
};

Device::~Device() = default;
std::string Device::str() const { return "fake"; }
const std::string& Device::getPCIBusID() const {
  static const std::string none;
  return none;
}
int Device::getInterfaceSpeed() const { return 0; }
void Device::createContext(int, int) {}

}  // namespace gloo::transport::tcp

struct Registry {
  std::unordered_map<std::string,
                     std::function<std::shared_ptr<void>(const std::string&, const std::string&, bool)>>
      creators{{"TCP", {}}};
  std::unordered_map<std::string, uint32_t> priorities;
  bool terminate = true;
  const bool warning = true;
  std::unordered_map<std::string, std::string> help;
  std::mutex mutex;
};

__attribute__((visibility("default"))) Registry* device_registry() asm(
    "_ZN4c10d18GlooDeviceRegistryB5cxx11Ev");
Registry* device_registry() {
  static Registry registry;
  return &registry;
}

// Its name tells the form of the registry's creators; nobody calls it.
extern "C" __attribute__((visibility("default"))) void make_device() asm(
    "_ZN4c10d17GlooDeviceFactory22makeDeviceForInterfaceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcE"
    "SaIcEEEb");
extern "C" void make_device() {}

// What a script does that asks for floe.
extern "C" __attribute__((visibility("default"))) void make_floe_device() {
  device_registry()->creators.at("FLOE")("", "", false);
}
