// The client of floe's TCP store.
#include "boot/tcp_store.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/log.h"
#include "boot/tcp_socket.h"
#include "boot/tcp_wire.h"

namespace floe {
namespace {

using tcp::wait_for;

// One attempt to connect ends after this, so that a lost SYN or a server that is just being replaced costs
// one attempt only.
constexpr Millis kAttempt{5000};
constexpr Millis kFirstPause{5}, kLongestPause{250};
// A server that has not been there for so long is probably a mistake of the caller's: it is told so.
constexpr double kWarnAfterSeconds = 3;
// How long after the caller's deadline an answer may come: the server answers at the deadline itself.
constexpr Millis kGrace{1000};

std::string words(int errno_value) {
  return fmt::format("{} (errno {})", std::generic_category().message(errno_value), errno_value);
}

Status send_all(int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd, POLLOUT, deadline)) return error(FLOE_ERR_STORE, "it does not read");
    } else if (errno != EINTR) {
      return error(FLOE_ERR_STORE, "the connection broke: {}", words(errno));
    }
  }
  return {};
}

// Appends to `input` until it has `bytes` bytes.
Status receive_until(int fd, std::string& input, size_t bytes, Deadline deadline) {
  while (input.size() < bytes) {
    char buffer[Store::kMaxValue + sizeof(tcp::Answer)];
    const ssize_t got = ::recv(fd, buffer, std::min(sizeof buffer, bytes - input.size()), 0);
    if (got > 0) {
      input.append(buffer, static_cast<size_t>(got));
    } else if (got == 0) {
      return error(FLOE_ERR_STORE, "it closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd, POLLIN, deadline)) return error(FLOE_ERR_STORE, "it does not answer");
    } else if (errno != EINTR) {
      return error(FLOE_ERR_STORE, "the connection broke: {}", words(errno));
    }
  }
  return {};
}

Result<UniqueFd> try_address(const addrinfo& address, Deadline deadline) {
  UniqueFd fd = tcp::open_socket(address);
  if (!fd.valid()) return error(FLOE_ERR_STORE, "no socket: {}", words(errno));
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
    return error(FLOE_ERR_STORE, "{}", words(errno));
  if (!wait_for(fd.get(), POLLOUT, deadline))
    return error(FLOE_ERR_STORE, "no answer to the connection attempt");
  int problem = 0;
  socklen_t size = sizeof problem;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
  if (problem != 0) return error(FLOE_ERR_STORE, "{}", words(problem));
  tcp::set_no_delay(fd.get());

  const tcp::Hello hello;
  std::string bytes;
  tcp::append(bytes, hello);
  FLOE_TRY(send_all(fd.get(), bytes, deadline));
  bytes.clear();
  FLOE_TRY(receive_until(fd.get(), bytes, sizeof hello, deadline));
  if (tcp::peek<tcp::Hello>(bytes) != hello)
    return error(FLOE_ERR_STORE, "what listens there is not floe's store, or one of another version");
  return fd;
}

Result<UniqueFd> try_host(const std::string& host, uint16_t port, Deadline deadline) {
  const auto addresses = tcp::resolve(host.c_str(), port, 0);
  if (!addresses.ok()) return addresses.status();
  Status last = error(FLOE_ERR_STORE, "it has no address");
  for (const addrinfo* address = addresses->get(); address; address = address->ai_next) {
    auto fd = try_address(*address, deadline.earlier(Deadline::in(kAttempt)));
    if (fd.ok()) return fd;
    last = fd.status();
  }
  return last;
}

}  // namespace

Result<std::unique_ptr<TcpStore>> TcpStore::connect(const std::string& host, uint16_t port,
                                                    Deadline deadline) {
  const auto start = Clock::now();
  const std::string where = fmt::format("{}:{}", host, port);
  Status last;
  bool warned = false;
  for (Millis pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto fd = try_host(host, port, deadline);
    if (fd.ok()) return std::unique_ptr<TcpStore>(new TcpStore(std::move(*fd), where, deadline));
    // An attempt that the deadline cut short says less than the one before it.
    if (last.ok() || !deadline.passed()) last = fd.status();
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    if (deadline.passed()) break;
    if (!warned && seconds_since(start) > kWarnAfterSeconds) {
      warned = true;
      log(LogLevel::kWarn, "no connection to the store at {} yet: {}. Trying for {} s more", where,
          last.message(), deadline.left().count() / 1000);
    }
  }
  return error(FLOE_ERR_STORE,
               "no connection to the store at {} within {:.1f} s: {}. Check that rank 0 has started, that "
               "MASTER_ADDR is its host, and that no firewall blocks the port (FLOE_STORE_PORT sets another)",
               where, seconds_since(start), last.message());
}

Result<TcpStore::Answer> TcpStore::exchange(std::string_view request, Deadline deadline) {
  if (!socket_.valid()) return error(FLOE_ERR_STORE, "the connection was closed after an earlier error");
  FLOE_TRY(send_all(socket_.get(), request, deadline));
  std::string bytes;
  FLOE_TRY(receive_until(socket_.get(), bytes, sizeof(tcp::Answer), deadline));
  const auto header = tcp::peek<tcp::Answer>(bytes);
  if (!header.valid()) return error(FLOE_ERR_STORE, "its answer makes no sense");
  FLOE_TRY(receive_until(socket_.get(), bytes, sizeof header + header.value_bytes, deadline));
  return Answer{header.code, bytes.substr(sizeof header)};
}

Result<TcpStore::Answer> TcpStore::ask(uint32_t operation, std::string_view key, std::string_view value,
                                       Deadline deadline) {
  const auto start = Clock::now();
  FLOE_TRY(check_store_item(key, value));
  tcp::Request request;
  request.timeout_ms = static_cast<uint64_t>(deadline.left().count());
  request.operation = operation;
  request.key_bytes = static_cast<uint32_t>(key.size());
  request.value_bytes = static_cast<uint32_t>(value.size());
  std::string bytes;
  tcp::append(bytes, request);
  bytes.append(key).append(value);

  auto answer = exchange(bytes, Deadline::in(deadline.left() + kGrace));
  if (answer.ok()) return answer;
  socket_.reset();
  return error(FLOE_ERR_STORE,
               "the store at {} failed on '{}' after {:.1f} s: {}. Check that rank 0 is alive and reachable",
               where_, key, seconds_since(start), answer.status().message());
}

Status TcpStore::set(const std::string& key, std::string_view value) {
  const auto answer = ask(tcp::kSet, key, value, deadline_);
  if (!answer.ok()) return answer.status();
  if (answer->code == tcp::kFull)
    return error(FLOE_ERR_STORE, "the store at {} is full at '{}'", where_, key);
  return {};
}

Result<std::string> TcpStore::get(const std::string& key, Deadline deadline) {
  const auto start = Clock::now();
  auto answer = ask(tcp::kGet, key, {}, deadline);
  if (!answer.ok()) return answer.status();
  if (answer->code != tcp::kDone)
    return error(FLOE_ERR_TIMEOUT, "key '{}' did not appear in the store at {} within {:.1f} s", key, where_,
                 seconds_since(start));
  return std::move(answer->value);
}

Status TcpStore::remove(const std::string& key) {
  const auto answer = ask(tcp::kRemove, key, {}, deadline_);
  return answer.ok() ? Status() : answer.status();
}

}  // namespace floe
