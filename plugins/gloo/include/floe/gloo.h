// floe as the transport of a C++ program's Gloo, without LD_PRELOAD: link with floe::gloo. For every C++ from
// 11 on; Gloo's own headers are not needed here.
#pragma once

#include <memory>
#include <string>

namespace gloo {
namespace transport {
class Device;
}
}  // namespace gloo

namespace floe {

// A device for gloo::rendezvous::Context::connectFullMesh and its like, where a program has had that of
// gloo::transport::tcp::CreateDevice. All ranks of a context need one of floe's.
//
//   interface  a network interface of this host, such as "eth0", or
//   hostname   a name or address of it: under which the other ranks find this one, in Gloos that connect pair
//              by pair (Debian 12's); empty: the host's own name. FLOE_IFNAME says which carries the data.
//
// Any thread. Does not block, but for looking up the name. GLOO_DEVICE_TRANSPORT does not matter. Throws
// gloo::InvalidOperationException, a std::runtime_error, that says what to do: the program's Gloo is not one
// that floe knows or is not exported, or there is no such interface; gloo::IoException if floe can't start.
std::shared_ptr<::gloo::transport::Device> create_gloo_device(const std::string& interface = "",
                                                              const std::string& hostname = "");

}  // namespace floe
