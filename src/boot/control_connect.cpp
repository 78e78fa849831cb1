#include "boot/control_connect.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <optional>

#include "base/log.h"
#include "boot/random.h"
#include "boot/tcp_socket.h"

namespace floe {
namespace {

using control::Handshake;

constexpr size_t kMostVisitors = 64;  // connections that have not proved anything yet
constexpr Millis kVisitTime{2000};    // for each of them
// When all places are taken, one that has had this long gives its place up.
constexpr Millis kVisitTimeWhenFull{100};
constexpr Millis kAcceptPause{50};  // after running out of descriptors or memory
constexpr Millis kCallPause{100};   // before a host is called again
constexpr Millis kInterruptible{20};

// "10.0.0.1 4711", and IPv6 alike.
struct Place {
  std::string address;
  uint16_t port = 0;

  std::string to_text() const { return fmt::format("{} {}", address, port); }
  static std::optional<Place> parse(std::string_view text) {
    const size_t space = text.find(' ');
    if (space == text.npos || space > INET6_ADDRSTRLEN) return {};
    const auto port = parse_port(text.substr(space + 1));
    if (!port) return {};
    return Place{std::string(text.substr(0, space)), *port};
  }
};

struct Call {
  std::optional<Handshake> handshake;
  UniqueFd socket;  // until it is connected
  Deadline again = Deadline::in(Millis(0));
  std::string problem;  // of the last attempt
};

struct Visitor {
  Handshake handshake;
  Clock::time_point since = Clock::now();
};

class Connecting {
 public:
  Connecting(const ControlListener& listener, std::span<const ControlPeer> hosts, const control::Terms& terms,
             Deadline deadline, const std::function<Status()>& interrupted)
      : listener_(listener),
        hosts_(hosts),
        terms_(terms),
        deadline_(deadline),
        interrupted_(interrupted),
        calls_(terms.self),
        result_(hosts.size()) {}

  Result<std::vector<UniqueFd>> run() {
    for (;;) {
      for (uint32_t host = 0; host < terms_.self; ++host) FLOE_TRY(advance(host));
      receive_visitors();
      if (missing() == 0) return std::move(result_);
      if (deadline_.passed()) return late();
      FLOE_TRY(interrupted_());
      wait();
    }
  }

 private:
  size_t missing() const {
    return static_cast<size_t>(std::count_if(result_.begin(), result_.end(),
                                             [](const UniqueFd& fd) { return !fd.valid(); })) -
           1;
  }

  // ---- Calls ----------------------------------------------------------------------------------------------

  Status advance(uint32_t host) {
    Call& call = calls_[host];
    if (result_[host].valid()) return {};
    if (!call.handshake && !call.socket.valid() && call.again.passed()) FLOE_TRY(dial(host, call));
    if (call.socket.valid() && tcp::wait_for(call.socket.get(), POLLOUT, Deadline::in(Millis(0)))) {
      int problem = 0;
      socklen_t size = sizeof problem;
      ::getsockopt(call.socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
      if (problem != 0) {
        fail(call, std::strerror(problem));
        return {};
      }
      call.handshake.emplace(std::move(call.socket), terms_, host);
    }
    if (!call.handshake) return {};
    switch (call.handshake->step()) {
      case Handshake::State::kPending: break;
      case Handshake::State::kDone: keep(host, *call.handshake); break;
      case Handshake::State::kRefused:
        if (call.handshake->differs()) return differs(host, call.handshake->problem());
        fail(call, call.handshake->problem());
    }
    return {};
  }

  Status dial(uint32_t host, Call& call) {
    const auto place = Place::parse(hosts_[host].address);
    const auto resolved = place ? tcp::resolve(place->address.c_str(), place->port, AI_NUMERICHOST)
                                : Result<tcp::Addresses>(error(FLOE_ERR_STORE, "it is none"));
    if (!resolved.ok())
      return error(FLOE_ERR_STORE, "host {} announced '{}' as its control address: {}", hosts_[host].host,
                   hosts_[host].address.substr(0, INET6_ADDRSTRLEN), resolved.status().message());
    const addrinfo& where = **resolved;
    call.socket = tcp::open_socket(where);
    if (!call.socket.valid()) return system_error("creating a socket", errno);
    if (::connect(call.socket.get(), where.ai_addr, where.ai_addrlen) != 0 && errno != EINPROGRESS)
      fail(call, std::strerror(errno));
    return {};
  }

  static void fail(Call& call, std::string why) {
    call.problem = std::move(why);
    call.handshake.reset();
    call.socket.reset();
    call.again = Deadline::in(kCallPause);
  }

  Status differs(uint32_t host, const std::string& how) const {
    return error(FLOE_ERR_MISMATCH, "host {} and host {} can't make their control connection: {}",
                 hosts_[terms_.self].host, hosts_[host].host, how);
  }

  void keep(uint32_t host, Handshake& done) {
    result_[host] = done.take_socket();
    tcp::set_no_delay(result_[host].get());
    tcp::keep_alive(result_[host].get());
  }

  // ---- Visitors -------------------------------------------------------------------------------------------

  void receive_visitors() {
    while (visitors_.size() < kMostVisitors && accept_at_.passed()) {
      UniqueFd socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.valid()) {
        visitors_.push_back({Handshake(std::move(socket), terms_, std::nullopt)});
        continue;
      }
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        accept_at_ = Deadline::in(kAcceptPause);
      if (errno != EINTR && errno != ECONNABORTED) break;
    }
    const auto now = Clock::now();
    const Millis longest = visitors_.size() < kMostVisitors ? kVisitTime : kVisitTimeWhenFull;
    std::erase_if(visitors_, [&](Visitor& visitor) {
      switch (visitor.handshake.step()) {
        case Handshake::State::kPending: return now - visitor.since > longest;
        // A host calls again if it has not heard of its success: its newest connection counts.
        case Handshake::State::kDone: keep(visitor.handshake.peer(), visitor.handshake); break;
        case Handshake::State::kRefused: refused(visitor.handshake.problem()); break;
      }
      return true;
    });
  }

  void refused(const std::string& why) {
    ++refused_;
    last_refusal_ = why;
    log(LogLevel::kDebug, "a connection to the control port is refused: {}", why);
  }

  // ---------------------------------------------------------------------------------------------------------

  void wait() {
    Deadline next = deadline_.earlier(Deadline::in(kInterruptible));
    polls_.clear();
    if (visitors_.size() < kMostVisitors && accept_at_.passed())
      polls_.push_back({listener_.fd(), POLLIN, 0});
    for (const Call& call : calls_) {
      if (call.socket.valid()) polls_.push_back({call.socket.get(), POLLOUT, 0});
      if (call.handshake && call.handshake->state() == Handshake::State::kPending) add(*call.handshake);
    }
    for (const Visitor& visitor : visitors_) add(visitor.handshake);
    ::poll(polls_.data(), polls_.size(), static_cast<int>(next.left().count()));
  }

  void add(const Handshake& handshake) {
    const short wanted = handshake.wants_to_write() ? POLLOUT : POLLIN;
    polls_.push_back({handshake.fd(), wanted, 0});
  }

  Status late() const {
    std::string names;
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      if (result_[host].valid() || host == terms_.self) continue;
      names += fmt::format("{}{}", names.empty() ? "" : ", ", hosts_[host].host);
      if (host < terms_.self)
        names += fmt::format(" (called at {}{}{})", hosts_[host].address,
                             calls_[host].problem.empty() ? "" : ": ", calls_[host].problem);
      else
        names += fmt::format(" (did not call {})", listener_.address());
    }
    return error(
        FLOE_ERR_TIMEOUT,
        "(Timed out) host {} has no control connection to {} after {:.1f} s{}; check firewalls, or set "
        "FLOE_IFNAME to the network between the hosts and FLOE_PORT_RANGE to open ports",
        hosts_[terms_.self].host, names, seconds_since(start_),
        refused_ == 0
            ? ""
            : fmt::format("; {} connections were refused, the last because: {}", refused_, last_refusal_));
  }

  const ControlListener& listener_;
  const std::span<const ControlPeer> hosts_;
  const control::Terms& terms_;
  const Deadline deadline_;
  const std::function<Status()>& interrupted_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Call> calls_;  // of the hosts before this one
  std::list<Visitor> visitors_;
  std::vector<UniqueFd> result_;
  std::vector<pollfd> polls_;
  Deadline accept_at_ = Deadline::in(Millis(0));
  size_t refused_ = 0;
  std::string last_refusal_;
};

}  // namespace

Result<ControlListener> ControlListener::create(const std::string& address, PortRange ports) {
  const auto resolved = tcp::resolve(address.c_str(), 0, AI_NUMERICHOST);
  if (!resolved.ok()) return resolved.status();
  for (const uint16_t port : ports.ports(random_u64())) {
    tcp::Listening attempt = tcp::listen_at(**resolved, port);
    if (attempt.fd.valid())
      return ControlListener(std::move(attempt.fd), Place{address, attempt.port}.to_text());
    if (attempt.problem != EADDRINUSE)
      return system_error(fmt::format("listening for the other hosts at {}", address), attempt.problem);
  }
  return error(FLOE_ERR_ENVIRONMENT,
               "no port of FLOE_PORT_RANGE='{}' is free at {}: give more, two for each rank of a host",
               ports.to_text(), address);
}

Result<std::vector<UniqueFd>> connect_hosts(const ControlListener& listener,
                                            std::span<const ControlPeer> hosts, const control::Terms& terms,
                                            Deadline deadline, const std::function<Status()>& interrupted) {
  return Connecting(listener, hosts, terms, deadline, interrupted).run();
}

}  // namespace floe
