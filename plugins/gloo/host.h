// PyTorch in this process: the library that has Gloo inside, and its registry of Gloo devices.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gloo_abi_r4.h"
#include "layout.h"

namespace floe::gloo_transport {

class Host final : public Symbols {
 public:
  // nullopt if PyTorch has not been loaded.
  static std::optional<Host> find();

  std::optional<std::span<void* const>> vtable(const char* symbol) const override;
  void* function(const char* symbol) const override;
  const std::string& path() const { return path_; }

  using DeviceCreator = std::function<std::shared_ptr<gloo_abi::r4::Device>(
      const std::string& interface, const std::string& hostname, bool lazy)>;
  // Makes `creator` what GLOO_DEVICE_TRANSPORT=<key> selects. Returns "" or why it could not.
  std::string register_device(const std::string& key, DeviceCreator creator) const;

 private:
  Host(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;  // not closed: what was registered points into it
  std::string path_;
};

}  // namespace floe::gloo_transport
