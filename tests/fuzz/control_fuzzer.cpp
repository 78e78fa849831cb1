// What comes over the network to a control connection: from strangers, before anything is proved, and from
// another host's ranks afterwards.
#include <fuzzer/FuzzedDataProvider.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "boot/control.h"
#include "boot/control_handshake.h"
#include "boot/control_wire.h"

namespace {

using namespace floe;
using control::Handshake;

constexpr uint64_t kSelf = 1, kThere = 2;

std::pair<UniqueFd, UniqueFd> tcp_pair() {
  static const UniqueFd listener = [] {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::listen(fd.get(), 8) != 0) std::abort();
    return fd;
  }();
  sockaddr_in at{};
  socklen_t size = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  UniqueFd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::getsockname(listener.get(), address, &size) != 0) std::abort();
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(caller.get(), address, size) != 0) std::abort();
  return {std::move(caller), UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

// Nobody who lacks the key gets through, whatever they say.
void knock(FuzzedDataProvider& input) {
  const control::Terms terms{1, 2, 3, mac("key", "fuzz"), 1, 4};
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  UniqueFd theirs(ends[1]);
  const bool calls = input.ConsumeBool();
  Handshake handshake(UniqueFd(ends[0]), terms, calls ? std::optional<uint32_t>(0) : std::nullopt);
  handshake.step();
  std::string bytes;
  if (input.ConsumeBool()) {
    control::Hello hello{{},
                         1,
                         1,
                         2,
                         3,
                         input.ConsumeIntegralInRange<uint32_t>(0, 5),
                         input.ConsumeIntegralInRange<uint32_t>(0, 5)};
    hello.magic = control::Hello().magic;
    bytes.assign(reinterpret_cast<const char*>(&hello), sizeof hello);
  }
  bytes += input.ConsumeRandomLengthString(512);
  const size_t half = input.ConsumeIntegralInRange<size_t>(0, bytes.size());
  (void)::send(theirs.get(), bytes.data(), half, MSG_NOSIGNAL);
  handshake.step();
  (void)::send(theirs.get(), bytes.data() + half, bytes.size() - half, MSG_NOSIGNAL);
  handshake.step();
  theirs.reset();
  handshake.step();
  if (handshake.state() != Handshake::State::kRefused) __builtin_trap();
}

// A host can say only of its own ranks that they have ended.
void read_log(FuzzedDataProvider& input) {
  auto [here, there] = tcp_pair();
  std::vector<Control::Host> hosts(1);
  hosts[0] = {"there", std::move(here), {kThere}};
  const auto control = Control::create(1, kSelf, std::move(hosts), {});
  if (!control.ok()) std::abort();
  while (input.remaining_bytes() != 0) {
    std::string bytes;
    if (input.ConsumeBool()) {
      const control::Record record{input.ConsumeIntegralInRange<uint32_t>(0, 3), 0,
                                   input.ConsumeIntegralInRange<uint64_t>(0, 3)};
      bytes.assign(reinterpret_cast<const char*>(&record), sizeof record);
    } else {
      bytes = input.ConsumeRandomLengthString(64);
    }
    (void)::send(there.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    (*control)->poll();
  }
  there.reset();
  (*control)->poll();
  if ((*control)->end_of(kSelf) || (*control)->intact()) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  if (input.ConsumeBool())
    knock(input);
  else
    read_log(input);
  return 0;
}
