// The address of an abstract Unix socket: a name without a file.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string_view>

namespace floe {

constexpr size_t kTokenBytes = 16;  // twice as many characters

class UnixAddress {
 public:
  static constexpr size_t kMaxName = sizeof(sockaddr_un::sun_path) - 1;

  // `name` has at most kMaxName bytes.
  explicit UnixAddress(std::string_view name) {
    address_.sun_family = AF_UNIX;
    name.copy(address_.sun_path + 1, kMaxName);  // the leading NUL makes it abstract
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

}  // namespace floe
