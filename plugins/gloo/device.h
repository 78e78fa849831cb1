// A Gloo device: where contexts come from.
#pragma once

#include <floe/floe.h>

#include <memory>
#include <string>

#include "gloo_abi.h"

namespace floe::gloo_transport::FLOE_GLOO_ABI {

namespace abi = gloo_abi::FLOE_GLOO_ABI;

class Device final : public abi::Device, public std::enable_shared_from_this<Device> {
 public:
  // `context` must outlive the device and all that it makes; `host`: see Group.
  Device(floe_context_t* context, std::string host) : floe_(context), host_(std::move(host)) {}

  std::string str() const override { return "floe"; }
  const std::string& getPCIBusID() const override { return pci_bus_id_; }
  int getInterfaceSpeed() const override { return 0; }
  bool hasGPUDirect() const override { return false; }
  std::shared_ptr<abi::Context> createContext(int rank, int size) override;

  floe_context_t* floe() const { return floe_; }
  const std::string& host() const { return host_; }

 private:
  floe_context_t* floe_;
  std::string host_;
  std::string pci_bus_id_;
};

}  // namespace floe::gloo_transport::FLOE_GLOO_ABI
