#include "provider_contender.h"

#include <cstdlib>

namespace floe::bench {
namespace {

// A variable that is as before at the end of the scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

// The settings are read when the context is created.
Status ProviderContender::start() {
  const Variable shm("FLOE_SHM", "off"), provider("FLOE_PROVIDER", provider_);
  if (auto status = session_.join("bench-" + provider_); !status.ok())
    return status.in("--provider " + provider_);
  floe_.emplace(session_);
  return {};
}

}  // namespace floe::bench
