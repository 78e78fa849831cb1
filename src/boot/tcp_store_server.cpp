// The server of floe's TCP store: one thread, one poll(2).
//
// What strangers can cost: kMostPending connections that have not said Hello yet, each for kHelloTime, and
// most_clients() that have; one request's bytes for each client; kMostBytes of keys and values. Garbage
// closes its own connection only.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "base/thread.h"
#include "boot/tcp_socket.h"
#include "boot/tcp_store.h"
#include "boot/tcp_wire.h"

namespace floe {
namespace {

constexpr size_t kMostPending = 64;
constexpr Millis kHelloTime{2000};
// When all places are taken, a connection that has had this long gives its place up.
constexpr Millis kHelloTimeWhenFull{100};
// And when as many are clients as may be, one that has asked for nothing for this long after its Hello.
constexpr Millis kSilenceWhenFull{1000};
constexpr Millis kAcceptPause{100};  // after running out of descriptors or memory
constexpr size_t kMostBytes = 64 << 20;

struct Client {
  enum class State { kPending, kIdle, kWaiting };  // before Hello; between requests; in a `get`

  explicit Client(UniqueFd socket) : fd(std::move(socket)) {}

  UniqueFd fd;
  State state = State::kPending;
  Deadline deadline = Deadline::in(kHelloTime);  // of kPending and kWaiting
  Clock::time_point since = Clock::now();        // accepted; after Hello, that
  bool asked = false;                            // has made a request
  std::string key;                               // kWaiting: for this key
  std::string input;                             // at most one request
  std::string output;                            // at most one answer
  bool ready = true;                             // poll(2) has found something to do
  bool closed = false;
};

// A rank has one connection, and for a moment two, if it has given up on one that was slow to answer.
constexpr size_t most_clients(uint32_t ranks) { return 2 * size_t{ranks} + 64; }

class Server {
 public:
  Server(const std::vector<UniqueFd>& listeners, uint32_t ranks, int wake, const std::atomic<bool>& listening,
         const std::atomic<bool>& running, std::atomic<size_t>& connected)
      : listeners_(listeners),
        most_clients_(most_clients(ranks)),
        wake_(wake),
        listening_(listening),
        running_(running),
        connected_(connected) {}

  // Relaxed: flags and count carry nothing but themselves, and the eventfd wakes this thread after they are
  // set.
  void run() {
    while (running_.load(std::memory_order_relaxed)) {
      wait();
      accept_all();
      for (Client& client : clients_)
        if (client.ready) serve(client);
      const auto now = Clock::now();
      for (Client& client : clients_) expire(client, now);
      std::erase_if(clients_, [](const Client& c) { return c.closed; });
      pending_ = static_cast<size_t>(std::count_if(clients_.begin(), clients_.end(), is_pending));
      connected_.store(clients_.size() - pending_, std::memory_order_relaxed);
    }
  }

 private:
  static bool is_pending(const Client& client) { return client.state == Client::State::kPending; }

  // Sleeps until a socket, a flag or a deadline needs attention.
  void wait() {
    Deadline next = Deadline::never();
    polls_.assign(1, pollfd{wake_, POLLIN, 0});
    if (may_accept()) {
      for (const UniqueFd& listener : listeners_) polls_.push_back({listener.get(), POLLIN, 0});
    } else if (listening_.load(std::memory_order_relaxed)) {
      next = Deadline::in(kAcceptPause);
    }
    for (Client& client : clients_) {
      if (client.state != Client::State::kIdle) next = next.earlier(client.deadline);
      polls_.push_back({client.fd.get(), events_for(client), 0});
    }
    const auto ms = std::min<int64_t>(next.left().count(), 60'000);
    ::poll(polls_.data(), polls_.size(), static_cast<int>(ms));
    auto entry = polls_.end() - static_cast<ptrdiff_t>(clients_.size());
    for (Client& client : clients_) client.ready = (entry++)->revents != 0;
    if (polls_[0].revents) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
    }
  }

  // Nothing is read while an answer is owed, so that a client's memory here stays bounded.
  static short events_for(const Client& client) {
    if (!client.output.empty()) return POLLOUT;
    return client.state == Client::State::kWaiting ? POLLRDHUP : POLLIN;
  }

  bool may_accept() const {
    return listening_.load(std::memory_order_relaxed) && accept_again_.passed() && pending_ < kMostPending;
  }

  void accept_all() {
    if (pending_ >= kMostPending) make_room();
    for (const UniqueFd& listener : listeners_) {
      while (may_accept()) {
        UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd.valid()) {
          if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause_accepting();
          if (errno == EINTR || errno == ECONNABORTED) continue;
          break;
        }
        tcp::set_no_delay(fd.get());
        clients_.emplace_back(std::move(fd));
        ++pending_;
      }
    }
  }

  void pause_accepting() {
    log(LogLevel::kWarn, "the store can't accept a connection: {}; trying again",
        system_error("accept", errno).message());
    accept_again_ = Deadline::in(kAcceptPause);
  }

  void make_room() {
    const auto limit = Clock::now() - kHelloTimeWhenFull;
    for (Client& client : clients_)
      if (is_pending(client) && !client.ready && client.since <= limit) client.closed = true;
  }

  // False: no client more can be served now. One that is refused tries again.
  bool make_place() {
    const auto served = [](const Client& c) { return !is_pending(c) && !c.closed; };
    const auto count = static_cast<size_t>(std::count_if(clients_.begin(), clients_.end(), served));
    if (count < most_clients_) return true;
    const auto limit = Clock::now() - kSilenceWhenFull;
    const auto silent = std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) {
      return served(c) && !c.asked && !c.ready && c.since <= limit;
    });
    if (silent == clients_.end()) return false;
    silent->closed = true;
    return true;
  }

  void serve(Client& client) {
    if (client.closed) return;
    if (client.output.empty()) read(client);
    if (!client.closed && !client.output.empty()) write(client);
  }

  void read(Client& client) {
    if (client.state == Client::State::kWaiting) {
      client.closed = true;  // events_for() asks only whether it has hung up
      return;
    }
    while (!client.closed) {
      const size_t missing = bytes_missing(client);
      if (client.closed) return;
      if (missing == 0) return take(client);
      char buffer[sizeof(tcp::Request) + Store::kMaxKey + Store::kMaxValue];
      const ssize_t got = ::recv(client.fd.get(), buffer, std::min(missing, sizeof buffer), 0);
      if (got > 0) {
        client.input.append(buffer, static_cast<size_t>(got));
      } else if (got < 0 && errno == EAGAIN) {
        return;
      } else if (got == 0 || errno != EINTR) {
        client.closed = true;
      }
    }
  }

  // How much of the message that `client` is sending has not arrived; closes a client that sends garbage.
  static size_t bytes_missing(Client& client) {
    const size_t have = client.input.size();
    if (is_pending(client)) return sizeof(tcp::Hello) - have;
    if (have < sizeof(tcp::Request)) return sizeof(tcp::Request) - have;
    const auto request = tcp::peek<tcp::Request>(client.input);
    client.closed = !request.valid();
    return client.closed ? 0 : sizeof request + request.body_bytes() - have;
  }

  // Handles the whole message in client.input.
  void take(Client& client) {
    const std::string input = std::exchange(client.input, {});
    if (is_pending(client)) {
      if (tcp::peek<tcp::Hello>(input) != tcp::Hello() || !make_place()) {
        client.closed = true;
        return;
      }
      client.state = Client::State::kIdle;
      client.since = Clock::now();
      tcp::append(client.output, tcp::Hello());
      return;
    }
    client.asked = true;
    const auto request = tcp::peek<tcp::Request>(input);
    const std::string key = input.substr(sizeof request, request.key_bytes);
    if (request.operation == tcp::kSet) return set(client, key, input.substr(sizeof request + key.size()));
    if (request.operation == tcp::kGet) return get(client, key, request.timeout_ms);
    if (const auto item = items_.find(key); item != items_.end()) {
      bytes_ -= item->first.size() + item->second.size();
      items_.erase(item);
    }
    answer(client, tcp::kDone, {});
  }

  void set(Client& client, const std::string& key, std::string value) {
    const auto old = items_.find(key);
    const size_t freed = old == items_.end() ? 0 : key.size() + old->second.size();
    const size_t bytes = bytes_ - freed + key.size() + value.size();
    if (bytes > kMostBytes) return answer(client, tcp::kFull, {});
    bytes_ = bytes;
    const std::string& kept = items_.insert_or_assign(key, std::move(value)).first->second;
    answer(client, tcp::kDone, {});
    for (Client& other : clients_) {
      if (other.state != Client::State::kWaiting || other.key != key || other.closed) continue;
      answer(other, tcp::kDone, kept);
      write(other);
    }
  }

  void get(Client& client, const std::string& key, uint64_t timeout_ms) {
    if (const auto item = items_.find(key); item != items_.end())
      return answer(client, tcp::kDone, item->second);
    client.state = Client::State::kWaiting;
    client.key = key;
    client.deadline = Deadline::in_ms(timeout_ms);
  }

  static void answer(Client& client, tcp::Code code, const std::string& value) {
    client.state = Client::State::kIdle;
    tcp::append(client.output, tcp::Answer{code, static_cast<uint32_t>(value.size())});
    client.output += value;
  }

  static void write(Client& client) {
    const ssize_t sent = ::send(client.fd.get(), client.output.data(), client.output.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      client.output.erase(0, static_cast<size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      client.closed = true;
    }
  }

  static void expire(Client& client, Clock::time_point now) {
    if (client.closed || client.state == Client::State::kIdle || !client.deadline.passed(now)) return;
    if (is_pending(client)) {
      client.closed = true;
    } else {
      answer(client, tcp::kAbsent, {});
      write(client);
    }
  }

  const std::vector<UniqueFd>& listeners_;
  const size_t most_clients_;
  const int wake_;
  const std::atomic<bool>& listening_;
  const std::atomic<bool>& running_;
  std::atomic<size_t>& connected_;
  std::list<Client> clients_;
  size_t pending_ = 0;  // clients in kPending
  std::vector<pollfd> polls_;
  Deadline accept_again_ = Deadline::in(Millis(0));
  std::unordered_map<std::string, std::string> items_;
  size_t bytes_ = 0;  // of all keys and values
};

}  // namespace

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(const std::string& address, uint16_t port,
                                                              uint32_t ranks) {
  auto listeners = tcp::listen_for(address, port);
  if (!listeners.ok()) return listeners.status();
  UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return system_error("creating an eventfd for floe's store", errno);
  std::unique_ptr<TcpStoreServer> server(new TcpStoreServer(std::move(*listeners), port, std::move(wake)));

  auto thread = start_thread("floe's store", [s = server.get(), ranks] {
    Server(s->listeners_, ranks, s->wake_.get(), s->listening_, s->running_, s->connected_).run();
  });
  if (!thread.ok()) return thread.status();
  server->thread_ = std::move(*thread);
  return server;
}

TcpStoreServer::TcpStoreServer(std::vector<UniqueFd> listeners, uint16_t port, UniqueFd wake)
    : listeners_(std::move(listeners)), port_(port), wake_(std::move(wake)) {}

TcpStoreServer::~TcpStoreServer() {
  running_.store(false, std::memory_order_relaxed);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

void TcpStoreServer::stop_listening() {
  if (!listening_.exchange(false, std::memory_order_relaxed)) return;
  for (const UniqueFd& listener : listeners_) ::shutdown(listener.get(), SHUT_RDWR);  // the port closes now
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void TcpStoreServer::wait_for_departures(Deadline deadline) const {
  constexpr Millis kGlance(2);
  while (connected_.load(std::memory_order_relaxed) != 0 && !deadline.passed())
    std::this_thread::sleep_for(kGlance);
}

}  // namespace floe
