// What processes of this user send to the Unix socket where the ranks of a host hand over descriptors:
// messages with any bytes and any number of descriptors. Ranks that nobody has pretended to be find each
// other all the same.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "boot/fd_message.h"
#include "boot/unix_address.h"
#include "boot/unix_exchange.h"

namespace {

using namespace floe;

// As unix_exchange.cpp lays it out.
std::string greeting(FuzzedDataProvider& input, const std::string& token) {
  std::string bytes("floefds\0", 8);
  for (int field = 0; field < 4; ++field) {
    const uint32_t number = input.ConsumeBool() ? input.ConsumeIntegralInRange<uint32_t>(0, 3)
                                                : input.ConsumeIntegral<uint32_t>();
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return bytes + token;
}

// Whether it knew what only the ranks know.
bool visit(FuzzedDataProvider& input, const LocalRank& rank) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const UnixAddress address(rank.socket_name);
  if (::connect(socket.get(), address.get(), address.size()) != 0) return false;
  const bool knows = input.ConsumeIntegralInRange<int>(0, 7) == 0;
  std::string bytes = knows || input.ConsumeBool()
                          ? greeting(input, knows ? rank.token : std::string(32, '0'))
                          : input.ConsumeRandomLengthString(512);
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  const std::vector<int> fds(input.ConsumeIntegralInRange<size_t>(0, kMaxExchangedFds), event.get());
  const auto span = std::as_bytes(std::span(bytes));
  if (fds.empty())
    (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  else
    (void)send_with_fds(socket.get(), span, fds);
  return knows;
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const size_t descriptors = open_descriptors();
  static int turn = 0;
  FuzzedDataProvider input(data, size);
  {
    std::vector<UnixListener> listeners;
    std::vector<LocalRank> ranks;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      auto listener = UnixListener::create(2);
      if (!listener.ok()) std::abort();
      listeners.push_back(std::move(*listener));
      ranks.push_back({rank, ::getpid(), listeners[rank].socket_name(), listeners[rank].token()});
    }
    bool known = false;
    for (int i = 0; i < 3 && input.remaining_bytes() != 0; ++i) known |= visit(input, ranks[0]);
    const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    const int fds[] = {event.get()};
    const Deadline deadline = Deadline::in_ms(known ? 50 : 5000);
    bool ok[2] = {};
    std::thread first([&] { ok[0] = exchange_fds(listeners[0], ranks, 0, fds, deadline).ok(); });
    ok[1] = exchange_fds(listeners[1], ranks, 1, fds, deadline).ok();
    first.join();
    if (!known && !(ok[0] && ok[1])) __builtin_trap();
  }
  if (++turn % 64 == 0 && open_descriptors() > descriptors + 2) __builtin_trap();
  return 0;
}
