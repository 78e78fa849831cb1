// Devices of all revisions, of types that only the revision's own code knows.
#pragma once

#include <memory>
#include <string>

namespace floe::gloo_transport {

// A std::shared_ptr<Device> of the revision. `interface` or `hostname`, if not empty, says under which
// address this host is reached (of the revisions that connect pair by pair). Throws IoException.
template <int revision>
std::shared_ptr<void> make_device(const std::string& interface, const std::string& hostname);

template <>
std::shared_ptr<void> make_device<0>(const std::string& interface, const std::string& hostname);
template <>
std::shared_ptr<void> make_device<2>(const std::string& interface, const std::string& hostname);
template <>
std::shared_ptr<void> make_device<3>(const std::string& interface, const std::string& hostname);
template <>
std::shared_ptr<void> make_device<4>(const std::string& interface, const std::string& hostname);

}  // namespace floe::gloo_transport
