#include "kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/types.h"
#include "onednn.h"
#include "pattern.h"
#include "reduce/reduce.h"
#include "statistics.h"
#include "system.h"
#include "ticks.h"
#include "topo/topology.h"

namespace floe::bench {
namespace {

constexpr uint32_t kSources = 2;
constexpr size_t kPage = 4096;
constexpr int kBatches = 15;

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

Buffer allocate(uint64_t bytes) {
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
  if (data) std::memset(data, 0xff, bytes);
  return Buffer(data);
}

struct Speed {
  double gbps = 0;  // bytes of the result over the median time of a batch's calls
  uint64_t errors = 0;
};

class KernelBench {
 public:
  KernelBench(const Options& options, const Ticks& ticks) : options_(options), ticks_(ticks) {}

  bool run();

 private:
  bool run_size(floe_type_t type, uint64_t bytes);
  Speed measure(const std::function<void()>& sum, floe_type_t type, uint64_t count);
  void print_head() const;

  const Options& options_;
  const Ticks& ticks_;
  Buffer a_, b_, result_;
  uint64_t errors_ = 0;
};

Speed KernelBench::measure(const std::function<void()>& sum, floe_type_t type, uint64_t count) {
  const Pattern pattern(type, kSources);
  const uint64_t bytes = count * type_size(type);
  std::memset(result_.get(), 0xff, bytes);
  sum();
  Speed speed;
  speed.errors = pattern.errors(result_.get(), {{0, count, Part::kAllRanks, 0}}, 0);

  const double once = [&] {
    const auto begin = Clock::now();
    sum();
    return seconds_since(begin);
  }();
  const auto calls = static_cast<uint64_t>(std::clamp(options_.seconds / kBatches / once, 1.0, 1e6));
  std::vector<double> us;
  for (int batch = 0; batch < kBatches; ++batch) {
    const uint64_t begin = Ticks::now();
    for (uint64_t call = 0; call < calls; ++call) sum();
    us.push_back(ticks_.us(begin, Ticks::now()) / static_cast<double>(calls));
  }
  speed.gbps = static_cast<double>(bytes) / statistics(std::move(us)).p50 / 1000;
  return speed;
}

bool KernelBench::run_size(floe_type_t type, uint64_t bytes) {
  const uint64_t count = bytes / type_size(type);
  a_ = allocate(bytes);
  b_ = allocate(bytes);
  result_ = allocate(bytes);
  if (!a_ || !b_ || !result_) {
    fmt::print(stderr, "floe-bench: no memory for three buffers of {} bytes: give smaller --sizes\n", bytes);
    return false;
  }
  const Pattern pattern(type, kSources);
  pattern.fill(a_.get(), count, 0, 0);
  pattern.fill(b_.get(), count, 1, 0);

  std::string line = fmt::format("{:>11} {:>9}", bytes, type_name(type));
  const auto report = [&](std::string_view peer, std::string_view isa, const Speed& speed) {
    errors_ += speed.errors;
    line += fmt::format(" {:>10.2f}", speed.gbps);
    const nlohmann::ordered_json object = {{"peer", peer},          {"op", "sum"}, {"dtype", type_name(type)},
                                           {"bytes", bytes},        {"isa", isa},  {"gbps", speed.gbps},
                                           {"errors", speed.errors}};
    if (options_.json) fmt::print("{}\n", object.dump());
  };
  for (const auto& isa : isa_names()) {
    if (auto status = set_isa(isa); !status.ok()) {
      fmt::print(stderr, "floe-bench: {}\n", status.message());
      return false;
    }
    void* const to[] = {result_.get()};
    const void* const from[] = {a_.get(), b_.get()};
    const auto sum = [&] { reduce(to, from, count, type, FLOE_SUM, 1); };
    report("floe", isa, measure(sum, type, count));
  }
  auto peer = onednn_sum(type, count, a_.get(), b_.get(), result_.get());
  if (peer.ok())
    report("onednn", "", measure(*peer, type, count));
  else
    line += fmt::format(" {:>10}", peer.status().message());
  if (!options_.json) fmt::print("{} {:>8}\n", line, errors_);
  std::fflush(stdout);
  return true;
}

void KernelBench::print_head() const {
  if (options_.json) return;
  fmt::print("# Sum of two buffers into a third, one core: GB/s of result, and wrong elements so far\n");
  fmt::print("# {:>9} {:>9}", "size (B)", "type");
  for (const auto& isa : isa_names()) fmt::print(" {:>10}", isa);
  fmt::print(" {:>10} {:>8}\n", "oneDNN", "errors");
}

bool KernelBench::run() {
  print_head();
  for (const uint64_t bytes : options_.sizes)
    for (const auto type : options_.types)
      if (!run_size(type, bytes)) return false;
  return errors_ == 0;
}

}  // namespace

int run_kernels(const Options& options) {
  const auto cpus = allowed_cpus();
  if (!cpus.empty()) pin_to(cpus.front());
  const Ticks ticks;
  return KernelBench(options, ticks).run() ? 0 : 1;
}

}  // namespace floe::bench
