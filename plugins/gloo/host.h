// The library in this process that has Gloo inside, and PyTorch's registry of Gloo devices.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "layout.h"

namespace floe::gloo_transport {

class Host final : public Symbols {
 public:
  // PyTorch, or else libgloo, or else the program itself; nullopt if none of them exports Gloo.
  static std::optional<Host> find();

  std::optional<std::span<void* const>> vtable(const char* symbol) const override;
  void* function(const char* symbol) const override;
  const std::string& path() const { return path_; }
  bool has_registry() const;

  // Returns a std::shared_ptr of the host's Device.
  using DeviceCreator =
      std::function<std::shared_ptr<void>(const std::string& interface, const std::string& hostname)>;
  // Makes `creator` what GLOO_DEVICE_TRANSPORT=<key> selects. Returns "" or why it could not.
  std::string register_device(const std::string& key, DeviceCreator creator) const;

 private:
  Host(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;  // not closed: what was registered points into it
  std::string path_;
};

}  // namespace floe::gloo_transport
