// The exceptions that a host which was built with Gloo expects of a transport.
#pragma once

#include <cstddef>
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

// Throws InvalidOperationException: these bytes are not inside a buffer of `size`.
[[noreturn]] void throw_outside(size_t offset, size_t bytes, size_t size);

}  // namespace floe::gloo_transport
