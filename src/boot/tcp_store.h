// floe's own TCP store, for programs that bring none: rank 0 serves it, every rank is a client.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "boot/store.h"

namespace floe {

// A thread that serves the store. Strangers cost a bounded amount: see tcp_store_server.cpp.
class TcpStoreServer {
 public:
  // Listens on the loopback interface if `address` is a loopback one, on `address` if it is an IP address
  // of this host, and on all interfaces otherwise. Port 0: any free port. `ranks`: how many it is for.
  static Result<std::unique_ptr<TcpStoreServer>> start(const std::string& address, uint16_t port,
                                                       uint32_t ranks);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  uint16_t port() const { return port_; }
  // From now on new connections are refused; clients that are connected are still served. Any thread.
  void stop_listening();
  // Until no client is connected, or the deadline.
  void wait_for_departures(Deadline deadline) const;

 private:
  TcpStoreServer(std::vector<UniqueFd> listeners, uint16_t port, UniqueFd wake);

  const std::vector<UniqueFd> listeners_;
  const uint16_t port_;
  const UniqueFd wake_;  // an eventfd; written after one of the flags below has been set
  std::atomic<bool> listening_{true};
  std::atomic<bool> running_{true};
  std::atomic<size_t> connected_{0};  // clients that have said hello
  std::thread thread_;
};

class TcpStore final : public Store {
 public:
  // Tries until the deadline, since rank 0 may start late. The deadline holds for set() and remove() too.
  static Result<std::unique_ptr<TcpStore>> connect(const std::string& host, uint16_t port, Deadline deadline);

  Status set(const std::string& key, std::string_view value) override;
  // FLOE_ERR_TIMEOUT if the key is absent, FLOE_ERR_STORE at most a second after the deadline if the
  // server does not answer.
  Result<std::string> get(const std::string& key, Deadline deadline) override;
  Status remove(const std::string& key) override;
  bool lasts() const override { return false; }

 private:
  TcpStore(UniqueFd socket, std::string where, Deadline deadline)
      : socket_(std::move(socket)), where_(std::move(where)), deadline_(deadline) {}

  struct Answer {
    uint32_t code = 0;
    std::string value;
  };
  Result<Answer> ask(uint32_t operation, std::string_view key, std::string_view value, Deadline deadline);
  Result<Answer> exchange(std::string_view request, Deadline deadline);

  UniqueFd socket_;    // closed after a failure: half a request or half an answer may be under way
  std::string where_;  // "host:port", for messages
  Deadline deadline_;
};

}  // namespace floe
