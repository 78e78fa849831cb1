#include "pairs.h"

#include <floe/floe.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "boot/host.h"

namespace floe::info {
namespace {

constexpr uint64_t kMessage = 1 << 20;
constexpr uint32_t kUnderWay = 4;
constexpr uint64_t kPing = 1, kData = 2, kCount = 3, kEnd = 4;  // tags

void must(floe_status_t status) {
  if (status != FLOE_OK) throw std::runtime_error(floe_last_error());
}

// Of one pair, as its lower rank has measured it.
struct Measured {
  double latency_us = 0;              // one way
  std::array<double, 2> megabytes{};  // per second: from the lower rank, and to it
};
constexpr size_t kNumbers = sizeof(Measured) / sizeof(double);

// What ranks tell each other of their hosts.
struct Place {
  std::array<char, 64> host{};
  std::array<char, 16> interface {};
  uint32_t mtu = 0;
  uint32_t reserved = 0;
  int64_t megabits = 0;
};

struct DestroyContext {
  void operator()(floe_context_t* context) const { floe_context_destroy(context); }
};
struct DestroyComm {
  void operator()(floe_comm_t* comm) const { floe_comm_destroy(comm); }
};

class Pairs {
 public:
  explicit Pairs(double seconds) {
    floe_context_t* context = nullptr;
    must(floe_context_create(nullptr, &context));
    context_.reset(context);
    floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
    constexpr uint64_t kPatience = 30'000;
    config.timeout_ms = std::getenv("FLOE_TIMEOUT_MS") ? 0 : kPatience;
    floe_comm_t* comm = nullptr;
    must(floe_comm_create_from_env(context, &config, &comm));
    comm_.reset(comm);
    floe_comm_info_t info = FLOE_COMM_INFO_INIT;
    must(floe_comm_info(comm, &info));
    rank_ = info.rank;
    size_ = info.size;
    constexpr double kLeast = 0.1;
    seconds_ = std::max(kLeast, seconds / rounds(size_));
    buffers_.resize(kUnderWay * kMessage);
  }

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }

  std::vector<Place> places(const Place& mine) {
    std::vector<Place> all(size_);
    must(floe_all_gather(comm_.get(), &mine, all.data(), sizeof mine, FLOE_UINT8, nullptr));
    return all;
  }

  // Row by lower rank, column by higher; complete on rank 0 only.
  std::vector<Measured> measure() {
    std::vector<Measured> mine(size_), all(rank_ == 0 ? size_t{size_} * size_ : 0);
    for (uint32_t round = 0; round < rounds(size_); ++round) {
      must(floe_barrier(comm_.get(), nullptr));
      const uint32_t peer = partner(rank_, size_, round);
      if (peer != rank_) mine[peer] = measure(peer);
    }
    must(floe_gather(comm_.get(), mine.data(), all.data(), size_ * kNumbers, FLOE_FLOAT64, 0, nullptr));
    must(floe_barrier(comm_.get(), nullptr));
    return all;
  }

 private:
  Measured measure(uint32_t peer) {
    Measured result;
    result.latency_us = ping(peer);
    const bool leads = rank_ < peer;
    result.megabytes[0] = stream_for_a_while(peer, leads);
    result.megabytes[1] = stream_for_a_while(peer, !leads);
    return result;
  }

  void send(uint32_t peer, uint64_t value, uint64_t tag) {
    must(floe_send(comm_.get(), &value, 1, FLOE_UINT64, peer, tag, nullptr));
  }
  uint64_t receive(uint32_t peer, uint64_t tag) {
    uint64_t value = 0;
    must(floe_recv(comm_.get(), &value, 1, FLOE_UINT64, peer, tag, nullptr));
    return value;
  }

  // A quarter of the time; the lower rank says with each message whether there is another.
  double ping(uint32_t peer) {
    if (rank_ > peer) {
      while (receive(peer, kPing) != 0) send(peer, 0, kPing);
      return 0;
    }
    std::vector<double> us;
    const auto start = Clock::now();
    while (us.empty() || seconds_since(start) < seconds_ / 4) {
      const auto begin = Clock::now();
      send(peer, 1, kPing);
      receive(peer, kPing);
      us.push_back(seconds_since(begin) * 1e6 / 2);
    }
    send(peer, 0, kPing);
    std::nth_element(us.begin(), us.begin() + static_cast<ptrdiff_t>(us.size() / 2), us.end());
    return us[us.size() / 2];
  }

  // Megabytes per second, for three eighths of the time by what one message takes.
  double stream_for_a_while(uint32_t peer, bool sends) {
    constexpr double kMost = 1 << 16;
    const double once = stream(peer, 1, sends).seconds;
    const auto count = static_cast<uint64_t>(std::clamp(seconds_ * 3 / 8 / once, 4.0, kMost));
    const Streamed all = stream(peer, count, sends);
    return static_cast<double>(all.messages * kMessage) / all.seconds / 1e6;
  }

  struct Streamed {
    uint64_t messages;
    double seconds;
  };

  // Some messages at a time; the sender says how many, and waits until the last has been received.
  Streamed stream(uint32_t peer, uint64_t count, bool sends) {
    if (sends)
      send(peer, count, kCount);
    else
      count = receive(peer, kCount);
    const auto start = Clock::now();
    std::array<floe_request_t*, kUnderWay> requests{};
    for (uint64_t i = 0; i < count + kUnderWay; ++i) {
      floe_request_t*& request = requests[i % kUnderWay];
      std::byte* const data = buffers_.data() + i % kUnderWay * kMessage;
      if (request) {
        must(floe_wait(request, FLOE_NO_TIMEOUT));
        must(floe_request_free(std::exchange(request, nullptr)));
      }
      if (i >= count) continue;
      must(sends ? floe_send(comm_.get(), data, kMessage, FLOE_UINT8, peer, kData, &request)
                 : floe_recv(comm_.get(), data, kMessage, FLOE_UINT8, peer, kData, &request));
    }
    if (sends)
      receive(peer, kEnd);
    else
      send(peer, 0, kEnd);
    return {count, seconds_since(start)};
  }

  std::unique_ptr<floe_context_t, DestroyContext> context_;
  std::unique_ptr<floe_comm_t, DestroyComm> comm_;
  uint32_t rank_ = 0, size_ = 1;
  double seconds_ = 0;
  std::vector<std::byte> buffers_;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Rank 0's account of all pairs.
class Account {
 public:
  Account(Findings& findings, std::vector<Place> places, std::vector<Measured> measured)
      : findings_(findings), places_(std::move(places)), measured_(std::move(measured)) {}

  void give() {
    compare_mtus();
    account_of("in a host", false);
    account_of("between hosts", true);
  }

 private:
  using Pair = std::pair<uint32_t, uint32_t>;

  std::string host(uint32_t rank) const { return places_[rank].host.data(); }
  std::string who(uint32_t rank) const { return fmt::format("rank {} ({})", rank, host(rank)); }
  const Measured& of(Pair pair) const { return measured_[pair.first * places_.size() + pair.second]; }
  double slower_way(Pair pair) const { return std::min(of(pair).megabytes[0], of(pair).megabytes[1]); }

  void compare_mtus() {
    for (uint32_t rank = 1; rank < places_.size(); ++rank) {
      const Place &first = places_[0], &other = places_[rank];
      if (first.mtu == other.mtu || first.mtu == 0 || other.mtu == 0) continue;
      findings_.note("MTU",
                     fmt::format("{} of {} on rank 0 ({}), {} of {} on {}", first.mtu, first.interface.data(),
                                 host(0), other.mtu, other.interface.data(), who(rank)),
                     "where nobody splits packets, the large ones are lost: give all interfaces one MTU");
      return;
    }
  }

  std::string text_of(Pair pair) const {
    const Measured& m = of(pair);
    return fmt::format("{} - {}: {:.1f} us, {:.0f} MB/s, back {:.0f} MB/s", who(pair.first), who(pair.second),
                       m.latency_us, m.megabytes[0], m.megabytes[1]);
  }

  // All pairs if they are few; those that are much worse than most; and whether most are what the cable is.
  void account_of(std::string_view topic, bool between_hosts) {
    constexpr size_t kFew = 12;
    std::vector<Pair> pairs;
    std::vector<double> speeds, latencies;
    for (uint32_t a = 0; a < places_.size(); ++a)
      for (uint32_t b = a + 1; b < places_.size(); ++b) {
        if ((host(a) != host(b)) != between_hosts) continue;
        pairs.emplace_back(a, b);
        speeds.push_back(slower_way({a, b}));
        latencies.push_back(of({a, b}).latency_us);
      }
    if (pairs.empty()) return;
    const double speed = median(speeds), latency = median(latencies);
    findings_.good(
        topic, fmt::format("{} pairs: median {:.1f} us one way, {:.0f} MB/s", pairs.size(), latency, speed));
    for (const Pair& pair : pairs) {
      constexpr double kMicroseconds = 100;
      const bool slow = slower_way(pair) < speed / 2;
      const bool late = of(pair).latency_us > 3 * latency + kMicroseconds;
      if (slow || late)
        findings_.note(topic, text_of(pair),
                       fmt::format("{} than most: look at the cable, switch port and load of {} and {}",
                                   slow ? "slower" : "later", host(pair.first), host(pair.second)));
      else if (pairs.size() <= kFew)
        findings_.good(topic, text_of(pair));
    }
    if (between_hosts) compare_with_cables(speed);
  }

  void compare_with_cables(double megabytes) {
    int64_t megabits = 0;
    for (const Place& place : places_)
      if (place.megabits > 0) megabits = megabits == 0 ? place.megabits : std::min(megabits, place.megabits);
    if (megabits == 0 || megabytes * 8 >= static_cast<double>(megabits) / 2) return;
    findings_.note("between hosts",
                   fmt::format("{:.2g} Gbit/s, where the interfaces say {:g}", megabytes * 8 / 1000,
                               static_cast<double>(megabits) / 1000),
                   "a slower switch, a limit of the cloud's for one connection, several ranks of a host that "
                   "measured at once, or too few CPUs");
  }

  Findings& findings_;
  std::vector<Place> places_;
  std::vector<Measured> measured_;  // row by lower rank, column by higher
};

Place own_place(const std::optional<Interface>& used) {
  Place mine;
  const auto copy = [](auto& to, const std::string& from) {
    std::memcpy(to.data(), from.data(), std::min(to.size() - 1, from.size()));
  };
  copy(mine.host, host_identity().hostname);
  if (!used) return mine;
  copy(mine.interface, used->name);
  mine.mtu = used->mtu;
  mine.megabits = used->megabits;
  return mine;
}

}  // namespace

void check_pairs(Findings& findings, const Job& job, const std::optional<Interface>& used,
                 double seconds) try {
  const auto start = Clock::now();
  Pairs pairs(seconds);
  const double connected = seconds_since(start);
  const auto places = pairs.places(own_place(used));
  auto measured = pairs.measure();
  if (pairs.rank() != 0) return;
  findings.good("ranks", fmt::format("all {} are connected, after {:.2f} s", pairs.size(), connected));
  Account(findings, places, std::move(measured)).give();
} catch (const std::exception& error) {
  findings.wrong("ranks", fmt::format("rank {} of {}: {}", job.launch->rank, job.launch->size, error.what()),
                 "mend what is said here, and by the other ranks, in its order; a firewall must let hosts "
                 "connect to each other's FLOE_PORT_RANGE");
}

}  // namespace floe::info
