// The exceptions that a host which was built with Gloo expects of a transport.
#pragma once

#include <stdexcept>
#include <string>

// A host finds its handler by the mangled name of the type, so these have Gloo's names.
namespace gloo {

struct __attribute__((visibility("default"))) Exception : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A call that makes no sense; nothing was sent.
struct __attribute__((visibility("default"))) InvalidOperationException : Exception {
  using Exception::Exception;
};

// An operation failed or timed out; the context can't be used any more.
struct __attribute__((visibility("default"))) IoException : Exception {
  using Exception::Exception;
};

}  // namespace gloo

namespace floe::gloo_transport {

// Throws InvalidOperationException: "floe: <what> is not supported: <instead>".
[[noreturn]] void throw_unsupported(const std::string& what, const std::string& instead);

}  // namespace floe::gloo_transport
