#include "comm/control_wire_up.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "boot/fd_message.h"

namespace floe {
namespace {

constexpr size_t kMostKnown = 8;  // that a card names
constexpr Millis kLongest{30'000};
constexpr Millis kSlice{20};

// Goes to each rank of the leader's host, with one descriptor, once for each other host.
struct Handover {
  static constexpr uint32_t kFailed = UINT32_MAX;  // there will be none: text says why

  uint32_t host = 0;
  uint32_t code = 0;
  Digest announced{};
  std::array<char, 984> text{};
};

std::string id_text(uint64_t id) { return fmt::format("{:016x}", id); }

uint64_t first_word(const Digest& digest) {
  uint64_t word = 0;
  std::memcpy(&word, digest.data(), sizeof word);
  return word;
}

}  // namespace

std::string ControlWireUp::ids() {
  const std::lock_guard guard(engine_.lock());
  std::string text;
  for (auto& control : engine_.controls()) {
    control->poll();
    if (!control->intact() || known_.size() == kMostKnown) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " ", id_text(control->id()));
    known_.push_back(std::move(control));
  }
  return text;
}

void ControlWireUp::announced(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += fmt::format("{} {}\n", text.size(), text);
  announced_ = mac(std::as_bytes(std::span(announced_)), {std::as_bytes(std::span(all))});
}

Status ControlWireUp::decide(const std::vector<Card>& cards) {
  key_ = cards[0].key;
  const bool one_host =
      std::all_of(cards.begin(), cards.end(), [&](const Card& card) { return card.host == cards[0].host; });
  if (one_host) return {};
  // The first one that all have, in rank 0's order.
  size_t common_at = std::string::npos;
  for (const auto& control : known_) {
    const std::string id = id_text(control->id());
    if (!std::all_of(cards.begin(), cards.end(),
                     [&](const Card& card) { return card.controls.find(id) != std::string::npos; }))
      continue;
    if (const size_t at = cards[0].controls.find(id); at < common_at) {
      common_at = at;
      common_ = control;
    }
  }
  // Whoever writes to a store could pretend that there is one, but could not prove what else is said there.
  if (!exchange_->among_ranks() && !engine_.settings().secret.empty()) common_.reset();
  needed_ = !common_;
  if (!needed_) return {};
  const auto neighbours = std::count_if(cards.begin(), cards.end(),
                                        [&](const Card& card) { return card.host == cards[rank_].host; });
  if (neighbours == 1) return {};
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
    return system_error("creating a Unix socket", errno);
  inbox_.reset(pair[0]);
  given_.reset(pair[1]);
  return {};
}

void ControlWireUp::separate() {
  needed_ = true;
  common_.reset();
  inbox_.reset();
  given_.reset();
  outboxes_.clear();
}

Result<std::string> ControlWireUp::listen(const std::vector<Member>& members, const std::string& address) {
  if (!needed_) return std::string();
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].host != rank) continue;
    if (members[rank_].host == rank) self_ = static_cast<uint32_t>(leaders_.size());
    leaders_.push_back(rank);
  }
  if (leaders_[self_] != rank_) return std::string();
  auto listener = ControlListener::create(address, engine_.settings().port_range);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  return listener_->address();
}

Result<std::vector<UniqueFd>> ControlWireUp::call(const std::vector<Card>& cards,
                                                  const std::vector<std::string>& addresses,
                                                  Deadline deadline) {
  std::vector<ControlPeer> hosts;
  for (const uint32_t leader : leaders_) hosts.push_back({cards[leader].hostname, addresses[leader]});
  control::Terms terms;
  terms.version = cards[rank_].version;
  terms.comm = key_;
  terms.settings = first_word(announced_);
  // Without a secret it is as secret as the store: the cards hold random tokens.
  terms.key = mac(std::as_bytes(std::span(engine_.settings().secret)),
                  {std::as_bytes(std::span("floe control")), std::as_bytes(std::span(announced_))});
  terms.self = self_;
  terms.hosts = static_cast<uint32_t>(hosts.size());
  return connect_hosts(*listener_, hosts, terms, deadline, [this] { return exchange_->interrupted(); });
}

Status ControlWireUp::hand_over(const Result<std::vector<UniqueFd>>& connections,
                                const std::vector<Member>& members, Deadline deadline) {
  Status problem;
  const auto send = [&](const auto& outbox, const Handover& message, std::span<const int> fds) {
    int code = 0;
    // Full, or too many descriptors under way.
    while ((code = send_with_fds(outbox.get(), std::as_bytes(std::span(&message, 1)), fds)) != 0 &&
           (code == EAGAIN || code == ENOBUFS || code == ETOOMANYREFS) && !deadline.passed())
      std::this_thread::sleep_for(Millis(1));
    return code;
  };
  for (const auto& [rank, outbox] : outboxes_) {
    Handover message;
    message.announced = announced_;
    if (!connections.ok()) {
      message.host = Handover::kFailed;
      message.code = static_cast<uint32_t>(connections.status().code());
      connections.status().message().copy(message.text.data(), message.text.size() - 1);
      (void)send(outbox, message, {});
      continue;
    }
    for (uint32_t host = 0; host < connections->size(); ++host) {
      message.host = host;
      if (host == self_) continue;
      const int fd = (*connections)[host].get();
      const int code = send(outbox, message, {&fd, 1});
      if (code == 0 || !problem.ok()) continue;
      const std::string& who = members[rank].who;
      problem = code == EPIPE || code == ECONNRESET
                    ? error(FLOE_ERR_PEER,
                            "{} died or gave up before it had the control connections of this host", who)
                    : system_error(fmt::format("handing control connections to {}", who), code);
    }
  }
  return problem;
}

Result<std::vector<UniqueFd>> ControlWireUp::take_over(const Member& leader, Deadline deadline) {
  std::vector<UniqueFd> connections(leaders_.size());
  for (size_t missing = leaders_.size() - 1; missing != 0;) {
    std::array<pollfd, 2> fds{{{inbox_.get(), POLLIN, 0}, {leader.pidfd.get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), static_cast<int>(std::min(deadline.left(), kSlice).count()));
    Handover message;
    FdMessage got = receive_with_fds(inbox_.get(), std::as_writable_bytes(std::span(&message, 1)));
    if (got.problem == EAGAIN) {
      if (fds[1].revents != 0)
        return error(FLOE_ERR_PEER, "{} died before it had the control connections of this host", leader.who);
      if (deadline.passed())
        return error(FLOE_ERR_TIMEOUT,
                     "(Timed out) {} did not hand over the control connections of this host", leader.who);
      FLOE_TRY(exchange_->interrupted());
      continue;
    }
    if (got.problem == 0 && got.bytes == 0)
      return error(FLOE_ERR_PEER,
                   "{} died or gave up before it had handed over the control connections of this host",
                   leader.who);
    message.text.back() = '\0';
    if (got.problem == 0 && message.host == Handover::kFailed && message.code > FLOE_IN_PROGRESS &&
        message.code <= FLOE_ERR_INTERNAL)
      return Status(static_cast<floe_status_t>(message.code), message.text.data());
    if (got.fds_missing)
      return error(FLOE_ERR_SYSTEM,
                   "the kernel could not hand over the control connections: the limit of open "
                   "files (ulimit -n) is probably too low");
    if (got.problem != 0 || got.bytes != sizeof message || got.fds.size() != 1 ||
        message.host >= connections.size() || connections[message.host].valid())
      return error(FLOE_ERR_INTERNAL, "{} handed over something else than control connections", leader.who);
    if (!equal(message.announced, announced_))
      return error(
          FLOE_ERR_MISMATCH,
          "{} has read other values of the ranks from the store than this rank: is the store used by "
          "another job, too?",
          leader.who);
    connections[message.host] = std::move(got.fds[0]);
    --missing;
  }
  return connections;
}

Result<std::shared_ptr<Control>> ControlWireUp::connect(const std::vector<Card>& cards,
                                                        const std::vector<std::string>& addresses,
                                                        const std::vector<Member>& members,
                                                        Deadline deadline) {
  if (!needed_) return std::move(common_);
  given_.reset();
  const bool leads = leaders_[self_] == rank_;
  if (!leads) outboxes_.clear();  // so that the leader's are the only ones, and their end is seen
  auto connections = leads ? call(cards, addresses, deadline.earlier(Deadline::in(kLongest)))
                           : take_over(members[leaders_[self_]], deadline);
  listener_.reset();
  if (leads) FLOE_TRY(hand_over(connections, members, deadline));
  if (!connections.ok()) return connections.status();

  std::vector<Control::Host> hosts(leaders_.size());
  std::vector<Control::Neighbour> neighbours;
  for (uint32_t host = 0; host < hosts.size(); ++host) {
    hosts[host].name = cards[leaders_[host]].hostname;
    hosts[host].connection = std::move((*connections)[host]);
    for (uint32_t rank = 0; rank < members.size(); ++rank) {
      if (members[rank].host != leaders_[host]) continue;
      hosts[host].engines.push_back(cards[rank].engine);
      if (!members[rank].pidfd.valid()) continue;
      UniqueFd pidfd(::fcntl(members[rank].pidfd.get(), F_DUPFD_CLOEXEC, 0));
      if (!pidfd.valid()) return system_error("duplicating a pidfd", errno);
      neighbours.push_back({cards[rank].engine, std::move(pidfd), rank < rank_});
    }
  }
  auto control = Control::create(key_, cards[rank_].engine, std::move(hosts), std::move(neighbours));
  if (!control.ok()) return control.status();
  const std::lock_guard guard(engine_.lock());
  engine_.add(*control);
  return control;
}

}  // namespace floe
