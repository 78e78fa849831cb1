#include "peer_contender.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace floe::bench {
namespace {

using Json = nlohmann::json;

constexpr Millis kAnswerTime = std::chrono::minutes(3);  // importing torch on a loaded machine included

Json to_json(const Case& what, uint64_t iterations) {
  return {{"op", what.op->name},        {"dtype", type_name(what.type)}, {"count", what.count},
          {"in_place", what.in_place},  {"iterations", iterations},      {"cold", what.manner.cold},
          {"touch", what.manner.touch}, {"heap", what.manner.heap},      {"offset", what.manner.offset},
          {"cpu", what.manner.cpu}};
}

}  // namespace

PeerContender::~PeerContender() {
  link_.to.reset();  // it ends when its commands do
  link_.from.reset();
}

Status PeerContender::greet() {
  auto hello = read_line();
  if (!hello.ok()) return hello.status();
  if (*hello != "ready") return error(FLOE_ERR_INTERNAL, "its process said: {}", *hello);
  return {};
}

Status PeerContender::write_line(std::string line) {
  line += '\n';
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = write(link_.to.get(), line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("writing to its process", errno);
    sent += static_cast<size_t>(n);
  }
  return {};
}

Status PeerContender::closed() {
  poll(nullptr, 0, 100);  // a process closes its descriptors before it is reaped
  if (link_.child && link_.child->ended())
    return error(FLOE_ERR_PEER, "its process (pid {}) {}: its messages are above", link_.child->pid(),
                 link_.child->how());
  return error(FLOE_ERR_PEER, "its process ended: its messages are above");
}

Result<std::string> PeerContender::read_line() {
  const Deadline deadline = Deadline::in(kAnswerTime);
  for (;;) {
    if (const size_t end = buffered_.find('\n'); end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    pollfd readable{link_.from.get(), POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>(deadline.left().count()));
    if (ready < 0 && errno != EINTR) return system_error("waiting for its process", errno);
    if (ready == 0)
      return error(FLOE_ERR_TIMEOUT, "its process did not answer within {} s",
                   std::chrono::duration_cast<std::chrono::seconds>(kAnswerTime).count());
    if (ready < 0) continue;
    char chunk[65536];
    const ssize_t n = read(link_.from.get(), chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ECONNRESET) return system_error("reading from its process", errno);
    if (n <= 0) return closed();
    buffered_.append(chunk, static_cast<size_t>(n));
  }
}

Result<Timings> PeerContender::run(const Case& what, uint64_t iterations) {
  if (auto status = write_line(to_json(what, iterations).dump()); !status.ok()) return status;
  auto line = read_line();
  if (!line.ok()) return line.status();
  const Json answer = Json::parse(*line, nullptr, false);
  if (!answer.is_object()) return error(FLOE_ERR_INTERNAL, "its process said: {}", *line);
  if (answer.contains("error")) return error(FLOE_ERR_PEER, "{}", answer["error"].get<std::string>());
  Timings timings;
  timings.measured = !answer.contains("unsupported");
  if (!timings.measured) return timings;
  timings.us = answer.at("us").get<std::vector<double>>();
  timings.cpu_ns = answer.at("cpu_ns").get<uint64_t>();
  timings.errors = answer.at("errors").get<uint64_t>();
  return timings;
}

}  // namespace floe::bench
