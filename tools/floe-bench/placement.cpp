#include "placement.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "system.h"

namespace floe::bench {
namespace {

// Measured on machines with a cache shared by some cores: exchanges of 28 ns between threads of one core,
// 31-47 ns through a shared cache, 170 ns and more without.
constexpr double kFarExchangeNs = 100;
constexpr double kSmtReadGbps = 90;

constexpr uint64_t kExchanges = 4000;
constexpr uint64_t kReads = 8;
constexpr size_t kReadBytes = 256 << 10;  // more than a first-level cache, less than a second-level one
constexpr auto kPatience = std::chrono::milliseconds(200);

struct alignas(128) Line {
  std::atomic<uint64_t> value{0};
};

class Probe {
 public:
  Probe(const Ticks& ticks, std::pair<unsigned, unsigned> cpus)
      : ticks_(ticks), cpus_{cpus.first, cpus.second}, data_(kReadBytes / 8) {}

  Placement run() {
    std::thread other([this] { side(1); });
    std::thread me([this] { side(0); });
    me.join();
    other.join();
    return failed_ ? Placement{} : result_;
  }

 private:
  // Both sides of one flag exchange; false when the other side does not come.
  bool exchange(int side, uint64_t round) {
    // Release and acquire: what was written before an exchange is seen after it.
    flags_[side].value.store(round, std::memory_order_release);
    for (uint64_t spins = 1; flags_[1 - side].value.load(std::memory_order_acquire) < round; ++spins) {
      if (spins % 4096 == 0 && (failed_ || std::chrono::steady_clock::now() > give_up_)) {
        failed_ = true;
        return false;
      }
    }
    return true;
  }

  void side(int side) {
    if (!pin_to(cpus_[side])) failed_ = true;
    uint64_t round = 0, best = ~uint64_t{0};
    // The best of a few batches: a batch in which the scheduler took a core says nothing.
    for (int batch = 0; batch < 5; ++batch) {
      if (!exchange(side, ++round)) return;
      const uint64_t begin = Ticks::now();
      for (uint64_t i = 0; i < kExchanges / 5; ++i)
        if (!exchange(side, ++round)) return;
      best = std::min(best, Ticks::now() - begin);
    }
    const double exchange_ns = ticks_.us(0, best) * 1000 / (kExchanges / 5.0);

    best = ~uint64_t{0};
    for (uint64_t read = 0; read < kReads; ++read) {
      if (side == 1) std::fill(data_.begin(), data_.end(), read);
      if (!exchange(side, ++round)) return;
      if (side == 0) {
        const uint64_t begin = Ticks::now();
        uint64_t sum = 0;
        for (const uint64_t word : data_) sum += word;
        best = std::min(best, Ticks::now() - begin);
        checksum_.store(sum, std::memory_order_relaxed);  // so that the reading is not optimised away
      }
      if (!exchange(side, ++round)) return;
    }
    if (side == 0) result_ = {exchange_ns, static_cast<double>(kReadBytes) / ticks_.us(0, best) / 1000};
  }

  const Ticks& ticks_;
  unsigned cpus_[2];
  Line flags_[2];
  std::vector<uint64_t> data_;
  std::atomic<uint64_t> checksum_{0};
  std::atomic<bool> failed_{false};
  std::chrono::steady_clock::time_point give_up_ = std::chrono::steady_clock::now() + kPatience;
  Placement result_;
};

}  // namespace

std::string_view Placement::state() const {
  if (!measured()) return "-";
  if (exchange_ns >= kFarExchangeNs) return "far";
  return read_gbps >= kSmtReadGbps ? "smt" : "near";
}

Placement probe_placement(const Ticks& ticks, std::pair<unsigned, unsigned> cpus) {
  return Probe(ticks, cpus).run();
}

}  // namespace floe::bench
