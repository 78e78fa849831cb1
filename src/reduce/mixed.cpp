// Reductions with sources of two types, in tiles that stay in the first cache: what is stored as bfloat16 is
// widened there, so every source is read from memory once.
#include <algorithm>
#include <array>
#include <cassert>

#include "base/copy.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

constexpr uint64_t kTile = 2048;  // elements: the sum and one widened source are 16 KiB
using Tile = std::array<float, kTile>;

class MixedSum {
 public:
  MixedSum(int op, uint32_t divisor, std::span<const double> factors)
      : op_(op), divisor_(divisor), factors_(factors) {}

  // Elements [begin, begin + count) of all sources into sum().
  void run(std::span<const Source> srcs, uint64_t begin, uint64_t count) {
    for (size_t s = 0; s < srcs.size(); ++s) {
      const bool last = s + 1 == srcs.size();
      add(s, elements(srcs[s], begin, count), count, op_ == FLOE_AVG && !last ? FLOE_SUM : op_);
    }
  }
  const float* sum() const { return sum_.data(); }

 private:
  const void* elements(const Source& source, uint64_t begin, uint64_t count) {
    const auto* const data = static_cast<const std::byte*>(source.data);
    if (!source.narrow) return data + begin * sizeof(float);
    widen(wide_.data(), data + begin * sizeof(uint16_t), count);
    return wide_.data();
  }

  // One source at a time gives the bits that all at once would: the accumulator is float32 either way.
  void add(size_t index, const void* source, uint64_t count, int op) {
    void* const to[] = {sum_.data()};
    const void* const both[] = {sum_.data(), source};
    const double factor = op == kPremulSum ? factors_[index] : 1;
    const std::array<double, 2> factors = {1, factor};
    const std::span<const double> used = op == kPremulSum ? std::span(factors) : std::span<const double>();
    if (index == 0)
      reduce(to, std::span(both).subspan(1), count, FLOE_FLOAT32, op, divisor_, used.last(used.size() / 2));
    else
      reduce(to, both, count, FLOE_FLOAT32, op, divisor_, used);
  }

  int op_;
  uint32_t divisor_;
  std::span<const double> factors_;
  alignas(64) Tile sum_;
  alignas(64) Tile wide_;
};

}  // namespace

void reduce_mixed(void* dst, bool narrow_dst, std::span<const Source> srcs, uint64_t count, int op,
                  uint32_t divisor, std::span<const double> factors) {
  assert(!srcs.empty() && (op == FLOE_SUM || op == FLOE_AVG || op == kPremulSum));
  MixedSum tile(op, divisor, factors);
  auto* const to = static_cast<std::byte*>(dst);
  for (uint64_t begin = 0; begin < count; begin += kTile) {
    const uint64_t now = std::min(kTile, count - begin);
    tile.run(srcs, begin, now);
    if (narrow_dst)
      narrow(to + begin * sizeof(uint16_t), tile.sum(), now);
    else
      copy_bytes(to + begin * sizeof(float), tile.sum(), now * sizeof(float));
  }
}

}  // namespace floe
