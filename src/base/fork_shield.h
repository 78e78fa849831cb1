// Descriptors that must end with this process: a forked child that kept them open would hide its parent's
// death.
#pragma once

#include "base/fd.h"

namespace floe {

// Open until the destructor; in a forked child it is /dev/null, under the same number.
class UnforkedFd {
 public:
  UnforkedFd() = default;
  explicit UnforkedFd(UniqueFd fd);
  UnforkedFd(UnforkedFd&&) noexcept = default;
  UnforkedFd& operator=(UnforkedFd&&) = delete;
  ~UnforkedFd();

  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }

 private:
  UniqueFd fd_;
};

}  // namespace floe
