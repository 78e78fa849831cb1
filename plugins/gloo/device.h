// A Gloo device: where contexts come from.
#pragma once

#include <floe/floe.h>

#include <memory>
#include <string>

#include "gloo_abi_r4.h"

namespace floe::gloo_transport {

// floe's context of this process, for all devices; created by the first call. It is never destroyed:
// buffers may outlive every static object, and its thread must not be joined while the process exits.
// Throws ::gloo::IoException with floe's text.
floe_context_t* process_context();

class Device final : public gloo_abi::r4::Device, public std::enable_shared_from_this<Device> {
 public:
  // `context` must outlive the device and all that it makes.
  explicit Device(floe_context_t* context) : floe_(context) {}

  std::string str() const override { return "floe"; }
  const std::string& getPCIBusID() const override { return pci_bus_id_; }
  int getInterfaceSpeed() const override { return 0; }
  bool hasGPUDirect() const override { return false; }
  std::shared_ptr<gloo_abi::r4::Context> createContext(int rank, int size) override;

  floe_context_t* floe() const { return floe_; }

 private:
  floe_context_t* floe_;
  std::string pci_bus_id_;
};

}  // namespace floe::gloo_transport
