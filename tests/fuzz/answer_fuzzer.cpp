// What answers where floe's TCP store should be: the input is all that the server says.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "base/fd.h"
#include "boot/tcp_store.h"
#include "boot/tcp_wire.h"

namespace {

using namespace floe;

// Says the same to every connection, and reads it until the client closes.
class Liar {
 public:
  Liar() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), generic, length) != 0 || ::listen(listener_.get(), 16) != 0 ||
        ::getsockname(listener_.get(), generic, &length) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
    std::thread([this] { run(); }).detach();
  }
  uint16_t port() const { return port_; }
  void say(std::string bytes) {
    const std::lock_guard guard(mutex_);
    bytes_ = std::move(bytes);
  }

 private:
  [[noreturn]] void run() {
    for (;;) {
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) continue;
      std::string bytes;
      {
        const std::lock_guard guard(mutex_);
        bytes = bytes_;
      }
      [[maybe_unused]] const auto sent = ::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ::shutdown(client.get(), SHUT_WR);
      for (char buffer[4096]; ::recv(client.get(), buffer, sizeof buffer, 0) > 0;) continue;
    }
  }

  const UniqueFd listener_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::string bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Liar& liar = *new Liar;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  // An even first byte: behind an honest Hello, where the answers are.
  const bool greets = size != 0 && data[0] % 2 == 0;
  if (greets) {
    std::string hello;
    tcp::append(hello, tcp::Hello());
    bytes = hello + bytes.substr(1);
  }
  liar.say(bytes);
  const auto store = TcpStore::connect("127.0.0.1", liar.port(), Deadline::in_ms(greets ? 2000 : 2));
  if (!store.ok()) {
    if (store.status().code() != FLOE_ERR_STORE) __builtin_trap();
    return 0;
  }
  for (int i = 0; i < 4; ++i) {
    const auto value = (*store)->get("key", Deadline::in_ms(2000));
    if (value.ok() ? value->size() > Store::kMaxValue : value.status().message().empty()) __builtin_trap();
    (void)(*store)->set("key", "value");
  }
  return 0;
}
