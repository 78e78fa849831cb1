// What strangers send to the TCP store: a connection for each input. Whatever came, the next honest client
// must be served.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include "base/fd.h"
#include "boot/tcp_store.h"
#include "boot/tcp_wire.h"

namespace {

using namespace floe;

TcpStoreServer& server() {
  static const auto started = [] {
    auto made = TcpStoreServer::start("127.0.0.1", 0, 2);
    if (!made.ok()) std::abort();
    return std::move(*made);
  }();
  return *started;
}

UniqueFd connect() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server().port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  return fd;
}

// Sends everything, and reads until the server closes.
std::string talk(const std::string& bytes) {
  const UniqueFd fd = connect();
  [[maybe_unused]] const auto sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(fd.get(), SHUT_WR);
  std::string answers;
  char buffer[8192];
  for (ssize_t got; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    answers.append(buffer, static_cast<size_t>(got));
  return answers;
}

std::string request(tcp::Operation operation, std::string_view key, std::string_view value) {
  tcp::Request header;
  header.operation = operation;
  header.key_bytes = static_cast<uint32_t>(key.size());
  header.value_bytes = static_cast<uint32_t>(value.size());
  std::string bytes;
  tcp::append(bytes, header);
  return bytes.append(key).append(value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string hello;
  tcp::append(hello, tcp::Hello());
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // An even first byte: behind a Hello, where the requests are.
  talk(size != 0 && data[0] % 2 == 0 ? hello + bytes.substr(1) : bytes);
  const std::string honest = hello + request(tcp::kSet, "honest", "value") + request(tcp::kGet, "honest", "");
  // On a busy machine one may be so slow that the server takes it for a stranger and closes.
  for (int attempt = 0; attempt < 5; ++attempt)
    if (talk(honest).ends_with("value")) return 0;
  std::abort();
}
