// What all devices of this process share.
#pragma once

#include <floe/floe.h>

#include <string>

namespace floe::gloo_transport {

// floe's context of this process, for all devices; created by the first call. It is never destroyed:
// buffers may outlive every static object, and its thread must not be joined while the process exits.
// Throws ::gloo::IoException with floe's text.
floe_context_t* process_context();

// An address of this host: the interface's, or `hostname`, or else what the host's own name stands for, and
// the loopback address if it stands for nothing. Throws InvalidOperationException if the interface has none.
std::string host_address(const std::string& interface, const std::string& hostname);

}  // namespace floe::gloo_transport
