#include "device.h"

#include "context.h"
#include "make_device.h"
#include "process.h"

namespace floe::gloo_transport {
namespace FLOE_GLOO_ABI {

std::shared_ptr<abi::Context> Device::createContext(int rank, int size) {
  return std::make_shared<Context>(shared_from_this(), rank, size);
}

}  // namespace FLOE_GLOO_ABI

template <>
std::shared_ptr<void> make_device<FLOE_GLOO_REVISION>(const std::string& interface,
                                                      const std::string& hostname) {
  // Both pointers of the result are those of a std::shared_ptr<Device> as the host declares it.
  const std::shared_ptr<gloo_abi::FLOE_GLOO_ABI::Device> device =
      std::make_shared<FLOE_GLOO_ABI::Device>(process_context(), host_address(interface, hostname));
  return device;
}

}  // namespace floe::gloo_transport
