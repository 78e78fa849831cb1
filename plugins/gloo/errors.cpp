#include "errors.h"

namespace floe::gloo_transport {

void throw_unsupported(const std::string& what, const std::string& instead) {
  throw ::gloo::InvalidOperationException("floe: " + what + " is not supported: " + instead);
}

}  // namespace floe::gloo_transport
