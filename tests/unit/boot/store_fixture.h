// A running TCP store server, clients of it, and raw sockets that misbehave.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>

#include "boot/tcp_store.h"
#include "support.h"

namespace floe::test {

class TcpStoreTest : public testing::Test {
 protected:
  static constexpr uint32_t kRanks = 32;

  void SetUp() override { server_ = start("127.0.0.1", 0); }

  static std::unique_ptr<TcpStoreServer> start(const std::string& address, uint16_t port) {
    auto server = TcpStoreServer::start(address, port, kRanks);
    EXPECT_TRUE(server.ok()) << server.status().message();
    return server.ok() ? std::move(*server) : nullptr;
  }

  std::unique_ptr<TcpStore> client() const {
    auto store = TcpStore::connect("127.0.0.1", server_->port(), soon());
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? std::move(*store) : nullptr;
  }

  static std::string value(TcpStore& store, const std::string& key) {
    const auto result = store.get(key, soon());
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : "";
  }

  UniqueFd stranger() const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(server_->port());
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    return fd;
  }

  std::unique_ptr<TcpStoreServer> server_;
};

// Sends as much as the other end takes before it closes.
inline void send_bytes(const UniqueFd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

// Everything up to the other end's close; fails if it stays open.
inline std::string read_until_closed(const UniqueFd& fd) {
  std::string all;
  for (;;) {
    pollfd entry{fd.get(), POLLIN, 0};
    if (::poll(&entry, 1, 30'000) != 1) {
      ADD_FAILURE() << "the connection is still open";
      return all;
    }
    char buffer[4096];
    const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return all;
    all.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace floe::test
