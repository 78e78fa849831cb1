// Every pair of ranks has one connection, made by the one with the higher index. It sends its greeting with
// its descriptors, the other checks who it is and answers in the same way. Nothing blocks and one poll(2)
// waits for everything, so that no order of arrival can deadlock.
#include "boot/unix_exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>

#include "boot/fd_message.h"
#include "boot/unix_address.h"

namespace floe {
namespace {

constexpr size_t kMostVisitors = 64;   // connections that have not greeted yet
constexpr Millis kGreetingTime{2000};  // for each of them
constexpr Millis kRetryPause{2};       // a full backlog, or no room for descriptors in flight

struct Greeting {
  char magic[8] = {'f', 'l', 'o', 'e', 'f', 'd', 's', '\0'};
  uint32_t version = 1;
  uint32_t sender = 0;  // rank
  uint32_t fds = 0;     // descriptors that come with it
  uint32_t reserved = 0;
  char token[2 * kTokenBytes] = {};  // the receiver's: the sender has read the store
};

// True for the errors that pass: no buffer, or too many descriptors in flight (RLIMIT_NOFILE counts them).
bool passes(int problem) { return problem == EAGAIN || problem == ENOBUFS || problem == ETOOMANYREFS; }

struct Peer {
  enum class State {
    kConnecting,      // lower index: connect and greet, at retry_at
    kAwaitingAnswer,  // lower index: greeted
    kAwaited,         // higher index: has not greeted yet
    kAnswering,       // higher index: has greeted; answer, at retry_at
    kDone
  };

  State state = State::kAwaited;
  UniqueFd socket;
  Deadline retry_at = Deadline::in(Millis(0));
};

struct Visitor {
  UniqueFd socket;
  pid_t pid;
  Deadline deadline;
};

class Exchange {
 public:
  Exchange(int listener, const std::string& token, std::span<const LocalRank> ranks, size_t self,
           std::span<const int> fds, Deadline deadline, const std::function<Status()>& interrupted)
      : listener_(listener),
        token_(token),
        ranks_(ranks),
        self_(self),
        fds_(fds),
        deadline_(deadline),
        interrupted_(interrupted),
        peers_(ranks.size()),
        result_(ranks.size()) {}

  Result<std::vector<ReceivedFds>> run() {
    FLOE_TRY(begin());
    FLOE_TRY(act());
    while (!finished()) {
      const bool last_look = deadline_.passed();
      wait();
      FLOE_TRY(receive());
      FLOE_TRY(find_dead());
      FLOE_TRY(act());
      if (finished()) break;
      if (last_look) return missing();
      if (interrupted_) FLOE_TRY(interrupted_());
    }
    return std::move(result_);
  }

 private:
  using State = Peer::State;

  Status begin() {
    peers_[self_].state = State::kDone;
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i == self_) continue;
      if (i < self_) peers_[i].state = State::kConnecting;
      if (ranks_[i].pid == ::getpid()) continue;
      result_[i].pidfd = open_pidfd(ranks_[i].pid);
      // Other errors: the kernel has no pidfds, or a filter forbids them. The deadline remains.
      if (!result_[i].pidfd.valid() && errno == ESRCH) return died(i);
    }
    return {};
  }

  bool finished() const {
    return std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.state == State::kDone; });
  }

  std::string name_of(size_t i) const {
    return fmt::format("rank {} (pid {})", ranks_[i].rank, ranks_[i].pid);
  }

  Status died(size_t i) const {
    return error(FLOE_ERR_PEER, "{} died before it had exchanged descriptors with rank {}", name_of(i),
                 ranks_[self_].rank);
  }

  Status missing() const {
    std::string names;
    for (size_t i = 0; i < peers_.size(); ++i)
      if (peers_[i].state != State::kDone) names += (names.empty() ? "" : ", ") + name_of(i);
    return error(
        FLOE_ERR_TIMEOUT,
        "rank {} waited {:.1f} s to exchange descriptors on this host; missing: {}. Check that these "
        "processes are not stopped",
        ranks_[self_].rank, seconds_since(start_), names);
  }

  // What the peers' states ask this rank to do now.
  Status act() {
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (!peers_[i].retry_at.passed()) continue;
      if (peers_[i].state == State::kConnecting) FLOE_TRY(connect_to(i));
      if (peers_[i].state == State::kAnswering) FLOE_TRY(answer(i));
    }
    return {};
  }

  void retry(size_t i, State state) {
    peers_[i].state = state;
    peers_[i].retry_at = Deadline::in(kRetryPause);
  }

  Status connect_to(size_t i) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return system_error("creating a Unix socket", errno);
    const UnixAddress address(ranks_[i].socket_name);
    if (::connect(socket.get(), address.get(), address.size()) != 0) {
      if (errno == ECONNREFUSED)
        return error(FLOE_ERR_PEER, "{} no longer listens for rank {}: it died or gave up", name_of(i),
                     ranks_[self_].rank);
      if (!passes(errno) && errno != EINTR) return system_error("connecting to " + name_of(i), errno);
      retry(i, State::kConnecting);  // its backlog is full
      return {};
    }
    const auto who = peer_credentials(socket.get());
    if (!who || who->pid != ranks_[i].pid || who->uid != ::geteuid())
      return error(FLOE_ERR_MISMATCH, "the socket that {} announced belongs to pid {} of user {}", name_of(i),
                   who ? who->pid : 0, who ? who->uid : 0);
    peers_[i].socket = std::move(socket);
    return send_greeting(i, State::kAwaitingAnswer, State::kConnecting, State::kConnecting);
  }

  Status answer(size_t i) { return send_greeting(i, State::kDone, State::kAnswering, State::kAwaited); }

  Status send_greeting(size_t i, State sent, State again, State broken) {
    Greeting greeting;
    greeting.sender = ranks_[self_].rank;
    greeting.fds = static_cast<uint32_t>(fds_.size());
    ranks_[i].token.copy(greeting.token, sizeof greeting.token);
    const int problem = send_with_fds(peers_[i].socket.get(), std::as_bytes(std::span(&greeting, 1)), fds_);
    if (problem == 0) {
      peers_[i].state = sent;
    } else if (passes(problem)) {
      retry(i, again);
    } else if (problem == EPIPE || problem == ECONNRESET) {
      retry(i, broken);
    } else {
      return system_error("giving descriptors to " + name_of(i), problem);
    }
    if (peers_[i].state != State::kAwaitingAnswer && peers_[i].state != State::kAnswering)
      peers_[i].socket.reset();
    return {};
  }

  // Pidfds stand first: poll(2) looks in this order, so that what a process sent before it died is seen
  // together with its death.
  void wait() {
    polls_.clear();
    watched_.clear();
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].state == State::kDone || !result_[i].pidfd.valid()) continue;
      polls_.push_back({result_[i].pidfd.get(), POLLIN, 0});
      watched_.push_back(i);
    }
    Deadline next = deadline_;
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].state == State::kConnecting || peers_[i].state == State::kAnswering)
        next = next.earlier(peers_[i].retry_at);
      if (peers_[i].state == State::kAwaitingAnswer) polls_.push_back({peers_[i].socket.get(), POLLIN, 0});
    }
    if (visitors_.size() < kMostVisitors && accept_at_.passed()) polls_.push_back({listener_, POLLIN, 0});
    if (!accept_at_.passed()) next = next.earlier(accept_at_);
    for (const Visitor& visitor : visitors_) {
      polls_.push_back({visitor.socket.get(), POLLIN, 0});
      next = next.earlier(visitor.deadline);
    }
    const Millis longest = interrupted_ ? kInterruptible : Millis(60'000);
    const auto ms = std::min(next.left(), longest).count();
    ::poll(polls_.data(), polls_.size(), static_cast<int>(ms));
  }

  Status receive() {
    for (size_t i = 0; i < self_; ++i)
      if (peers_[i].state == State::kAwaitingAnswer) FLOE_TRY(receive_answer(i));
    accept_visitors();
    for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
      const auto greeted = hear(*visitor);
      if (!greeted.ok()) return greeted.status();
      const bool over = *greeted || visitor->deadline.passed();
      visitor = over ? visitors_.erase(visitor) : std::next(visitor);
    }
    return {};
  }

  Status receive_answer(size_t i) {
    Greeting greeting;
    FdMessage message =
        receive_with_fds(peers_[i].socket.get(), std::as_writable_bytes(std::span(&greeting, 1)));
    if (message.problem == EAGAIN) return {};
    if (message.problem != 0 || message.bytes == 0) {
      retry(i,
            State::kConnecting);  // it dropped this rank for being slow; or it ended, which connecting tells
      peers_[i].socket.reset();
      return {};
    }
    if (!genuine(greeting, message) || greeting.sender != ranks_[i].rank)
      return error(FLOE_ERR_MISMATCH, "{} answered the exchange of descriptors with something else",
                   name_of(i));
    FLOE_TRY(keep(i, greeting, message, peers_[i].socket.get()));
    peers_[i].state = State::kDone;
    peers_[i].socket.reset();
    return {};
  }

  bool genuine(const Greeting& greeting, const FdMessage& message) const {
    const Greeting expected;
    return message.bytes == sizeof greeting && !message.truncated &&
           std::memcmp(greeting.magic, expected.magic, sizeof expected.magic) == 0 &&
           greeting.version == expected.version &&
           std::string_view(greeting.token, sizeof greeting.token) == token_;
  }

  // Takes what rank i gave. Its greeting is genuine, so that what is wrong now is an error.
  Status keep(size_t i, const Greeting& greeting, FdMessage& message, int socket) {
    if (message.fds_missing)
      return error(
          FLOE_ERR_SYSTEM,
          "the kernel could not hand over the descriptors from {}: the limit of open files (ulimit -n) is "
          "probably too low",
          name_of(i));
    if (greeting.fds != fds_.size() || message.fds.size() != fds_.size())
      return error(FLOE_ERR_MISMATCH, "{} gave {} descriptors, rank {} gives {}", name_of(i),
                   message.fds.size(), ranks_[self_].rank, fds_.size());
    result_[i].fds = std::move(message.fds);
    if (ranks_[i].pid != ::getpid()) {
      UniqueFd exact = peer_pidfd(socket, ranks_[i].pid);
      if (exact.valid()) result_[i].pidfd = std::move(exact);
    }
    return {};
  }

  void accept_visitors() {
    while (visitors_.size() < kMostVisitors && accept_at_.passed()) {
      UniqueFd socket(::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket.valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
          accept_at_ = Deadline::in(kAcceptPause);
        return;
      }
      const auto who = peer_credentials(socket.get());
      const bool expected = who && who->uid == ::geteuid() && awaited_from(who->pid);
      if (expected) visitors_.push_back({std::move(socket), who->pid, Deadline::in(kGreetingTime)});
    }
  }

  bool awaited_from(pid_t pid) const {
    for (size_t i = self_ + 1; i < peers_.size(); ++i)
      if (ranks_[i].pid == pid && peers_[i].state == State::kAwaited) return true;
    return false;
  }

  // Reads a visitor's greeting. True when the visit is over: it was a rank, or nobody who is expected.
  Result<bool> hear(Visitor& visitor) {
    Greeting greeting;
    FdMessage message =
        receive_with_fds(visitor.socket.get(), std::as_writable_bytes(std::span(&greeting, 1)));
    if (message.problem == EAGAIN) return false;
    if (message.problem != 0 || !genuine(greeting, message)) return true;
    for (size_t i = self_ + 1; i < peers_.size(); ++i) {
      if (ranks_[i].rank != greeting.sender || ranks_[i].pid != visitor.pid) continue;
      if (peers_[i].state != State::kAwaited) return true;
      FLOE_TRY(keep(i, greeting, message, visitor.socket.get()));
      peers_[i].socket = std::move(visitor.socket);
      peers_[i].state = State::kAnswering;
      return true;
    }
    return true;
  }

  Status find_dead() const {
    for (size_t k = 0; k < watched_.size(); ++k)
      if (polls_[k].revents != 0 && peers_[watched_[k]].state != State::kDone) return died(watched_[k]);
    return {};
  }

  static constexpr Millis kAcceptPause{50};  // after running out of descriptors or memory
  static constexpr Millis kInterruptible{20};

  const int listener_;
  const std::string& token_;
  const std::span<const LocalRank> ranks_;
  const size_t self_;
  const std::span<const int> fds_;
  const Deadline deadline_;
  const std::function<Status()>& interrupted_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Peer> peers_;
  std::list<Visitor> visitors_;
  std::vector<ReceivedFds> result_;
  std::vector<pollfd> polls_;
  std::vector<size_t> watched_;  // polls_[k] is the pidfd of ranks_[watched_[k]]
  Deadline accept_at_ = Deadline::in(Millis(0));
};

// What came through the store, before anything is done with it.
Status check_ranks(std::span<const LocalRank> ranks) {
  for (const LocalRank& rank : ranks)
    if (rank.pid <= 0 || rank.token.size() != 2 * kTokenBytes || rank.socket_name.empty() ||
        rank.socket_name.size() > UnixAddress::kMaxName)
      return error(FLOE_ERR_STORE,
                   "rank {} announced itself wrongly: pid {}, socket name of {} bytes, token of {}",
                   rank.rank, rank.pid, rank.socket_name.size(), rank.token.size());
  return {};
}

}  // namespace

Result<std::vector<ReceivedFds>> exchange_fds(UnixListener& listener, std::span<const LocalRank> ranks,
                                              size_t self, std::span<const int> fds_to_give,
                                              Deadline deadline, const std::function<Status()>& interrupted) {
  if (self >= ranks.size() || fds_to_give.empty() || fds_to_give.size() > kMaxExchangedFds)
    return error(FLOE_ERR_INTERNAL, "exchange of {} descriptors as rank {} of {}", fds_to_give.size(), self,
                 ranks.size());
  FLOE_TRY(check_ranks(ranks));
  return Exchange(listener.fd(), listener.token(), ranks, self, fds_to_give, deadline, interrupted).run();
}

}  // namespace floe
