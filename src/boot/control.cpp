#include "boot/control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/thread.h"
#include "boot/control_wire.h"

namespace floe {

using control::Record;

namespace {

// As many neighbours announce a death, since any of them may be stopped, or about to die as well.
constexpr size_t kAnnouncers = 4;
// 400 ranks of one host that end one by one.
constexpr size_t kMostLog = 32 << 10;
// The kernel gives a peer up that has not answered for 5 s: tcp::keep_alive().
constexpr uint32_t kSilentMs = 3000;

// Of whatever a connection's end is, only the first reader is told, by an error that is then cleared. Its
// state tells everybody.
tcp_info state_of(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) info.tcpi_state = TCP_CLOSE;
  return info;
}

}  // namespace

Result<std::shared_ptr<Control>> Control::create(uint64_t id, uint64_t self, std::vector<Host> hosts,
                                                 std::vector<Neighbour> neighbours) {
  std::shared_ptr<Control> control(new Control(id, self));
  FLOE_TRY(control->open(std::move(hosts), std::move(neighbours)));
  return control;
}

Status Control::open(std::vector<Host> hosts, std::vector<Neighbour> neighbours) {
  events_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!events_.valid()) return system_error("creating an epoll descriptor", errno);
  for (Host& host : hosts) {
    if (!host.connection.valid()) continue;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    event.data.u64 = connections_.size();
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, host.connection.get(), &event) != 0)
      return system_error("watching a control connection", errno);
    for (const uint64_t engine : host.engines) engines_[engine].connection = connections_.size();
    connections_.push_back({std::move(host.name), UnforkedFd(std::move(host.connection))});
  }
  neighbours_ = std::move(neighbours);
  if (neighbours_.empty()) return {};
  stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return system_error("creating an eventfd", errno);
  auto watcher = start_thread("the watch over this host's ranks", [this] { watch(); });
  if (!watcher.ok()) return watcher.status();
  watcher_ = std::move(*watcher);
  return {};
}

Control::~Control() {
  if (::getpid() != pid_) {  // there is no such thread here, and the connections are /dev/null
    if (watcher_.joinable()) watcher_.detach();
    return;
  }
  if (watcher_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
    watcher_.join();
  }
  say(Record::kLeft, self_);
}

// ---- Telling --------------------------------------------------------------------------------------------

// Ranks of this host may write at the same time: the kernel takes each record whole, as there is always room
// for a few. Where there is none, nobody has read for long.
void Control::say(uint32_t kind, uint64_t engine) const {
  const Record record{kind, 0, engine};
  for (const Connection& connection : connections_)
    (void)::send(connection.fd.get(), &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The lowest ranks that live announce a death, and then all that those may have died without announcing.
void Control::watch() {
  std::vector<pollfd> fds;
  for (const Neighbour& neighbour : neighbours_) fds.push_back({neighbour.pidfd.get(), POLLIN, 0});
  fds.push_back({stop_.get(), POLLIN, 0});
  std::vector<uint64_t> unannounced;
  while (fds.back().revents == 0) {
    ::poll(fds.data(), fds.size(), -1);
    size_t before = 0;
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      if (fds[i].fd >= 0 && fds[i].revents != 0) {
        unannounced.push_back(neighbours_[i].engine);
        fds[i].fd = -1;  // poll(2) passes it over from now on
      }
      before += neighbours_[i].first && fds[i].fd >= 0 ? 1 : 0;
    }
    if (before >= kAnnouncers) continue;
    for (const uint64_t engine : unannounced) say(Record::kDied, engine);
    unannounced.clear();
  }
}

// ---- Hearing --------------------------------------------------------------------------------------------

bool Control::intact() const {
  return std::none_of(connections_.begin(), connections_.end(), [](const Connection& c) { return c.over; });
}

const Control::End* Control::end_of(uint64_t engine) const {
  const auto found = engines_.find(engine);
  return found != engines_.end() && found->second.end ? &*found->second.end : nullptr;
}

uint64_t Control::poll() {
  std::array<epoll_event, 16> events;  // others stay pending
  const int ready = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) look(events[static_cast<size_t>(i)].data.u64);
  return news_;
}

void Control::look(size_t index) {
  Connection& connection = connections_[index];
  if (connection.over) return;
  // First the state: all that came before an end has then arrived.
  const tcp_info info = state_of(connection.fd.get());
  read_log(index);
  if (connection.over || info.tcpi_state == TCP_ESTABLISHED) return;
  if (info.tcpi_state == TCP_CLOSE_WAIT)
    end_host(index, {true, "died"});
  else if (info.tcpi_last_ack_recv >= kSilentMs)
    end_host(index, {false, fmt::format("cannot be reached: host {} has not answered for {:.1f} s",
                                        connection.host, info.tcpi_last_ack_recv / 1e3)});
  else
    end_host(index,
             {false, fmt::format("cannot be reached: the connection to host {} was reset", connection.host)});
}

void Control::read_log(size_t index) {
  Connection& connection = connections_[index];
  int size = 0;
  if (::ioctl(connection.fd.get(), FIONREAD, &size) != 0 || size <= 0) return;
  std::vector<std::byte> log(std::min(static_cast<size_t>(size), kMostLog + 1));
  const ssize_t got = ::recv(connection.fd.get(), log.data(), log.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return;
  if (static_cast<size_t>(got) > kMostLog)
    return end_host(index, {false, fmt::format("cannot be reached: host {} says more than any floe does",
                                               connection.host)});
  hear(index, std::span(log).first(static_cast<size_t>(got)));
}

void Control::hear(size_t index, std::span<const std::byte> log) {
  Connection& connection = connections_[index];
  for (; connection.read + sizeof(Record) <= log.size(); connection.read += sizeof(Record)) {
    Record record;
    std::memcpy(&record, log.data() + connection.read, sizeof record);
    const auto found = engines_.find(record.engine);
    if (found == engines_.end() || found->second.connection != index) continue;  // none of its own
    Engine& engine = found->second;
    if (record.kind == Record::kLeft) engine.left = true;
    if (record.kind != Record::kDied || engine.left || engine.end) continue;
    engine.end = {true, "died"};
    ++news_;
  }
}

// Ranks that left before their host's connection ended are not concerned.
void Control::end_host(size_t index, const End& end) {
  connections_[index].over = true;
  ++news_;
  log(LogLevel::kInfo, "host {}: its control connection has ended: {}", connections_[index].host, end.how);
  for (auto& [id, engine] : engines_)
    if (engine.connection == index && !engine.left && !engine.end) engine.end = end;
}

}  // namespace floe
