#include "pattern.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>

#include "base/types.h"

namespace floe::bench {
namespace {

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// A small non-negative integer as a 16- or 8-bit float, to nearest even. A carry out of the mantissa raises
// the exponent, as it must.
uint16_t encode_float(unsigned value, int mantissa_bits, int bias) {
  if (value == 0) return 0;
  const int exponent = std::ilogb(value);
  const double fraction = std::ldexp(value, -exponent) - 1;
  const auto mantissa = static_cast<unsigned>(std::nearbyint(std::ldexp(fraction, mantissa_bits)));
  return static_cast<uint16_t>((static_cast<unsigned>(exponent + bias) << mantissa_bits) + mantissa);
}

void encode(std::byte* to, int type, unsigned value) {
  switch (type) {
    case FLOE_FLOAT32: return store(to, static_cast<float>(value));
    case FLOE_FLOAT64: return store(to, static_cast<double>(value));
    case FLOE_FLOAT16: return store(to, encode_float(value, 10, 15));
    case FLOE_BFLOAT16: return store(to, encode_float(value, 7, 127));
    case FLOE_FLOAT8_E4M3: return store(to, static_cast<uint8_t>(encode_float(value, 3, 7)));
    case FLOE_FLOAT8_E5M2: return store(to, static_cast<uint8_t>(encode_float(value, 2, 15)));
    case FLOE_COMPLEX64: return store(to, std::complex<float>(static_cast<float>(value)));
    case FLOE_COMPLEX128: return store(to, std::complex<double>(value));
    case FLOE_BOOL: return store(to, static_cast<uint8_t>(value != 0));
    case FLOE_INT8:
    case FLOE_UINT8: return store(to, static_cast<uint8_t>(value));
    case FLOE_INT16:
    case FLOE_UINT16: return store(to, static_cast<uint16_t>(value));
    case FLOE_INT32:
    case FLOE_UINT32: return store(to, static_cast<uint32_t>(value));
    default: return store(to, static_cast<uint64_t>(value));
  }
}

// Well mixed high bits (Steele, Lea & Flood 2014, the finalizer of SplitMix64).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Pattern::Pattern(int type, uint32_t ranks) : element_(type_size(type)), ranks_(ranks), mask_(15) {
  // bfloat16 holds integers up to 256, int8 up to 127; with more ranks than that sums wrap or round, alike
  // here and there. float8 holds its summands, and rounds their sum once, alike too.
  if (type == FLOE_FLOAT8_E5M2) mask_ = 7;
  while (mask_ > 1 && mask_ * uint64_t{ranks} > 127) mask_ /= 2;
  counting_.resize((mask_ + 1 + kRun) * element_);
  for (unsigned i = 0; i < mask_ + 1 + kRun; ++i) encode(&counting_[i * element_], type, i & mask_);
  sums_.resize((uint64_t{mask_} * ranks + 1) * element_);
  for (unsigned i = 0; i <= mask_ * ranks; ++i) encode(&sums_[i * element_], type, i);
}

unsigned Pattern::start(uint64_t run, uint32_t rank, uint64_t iteration) const {
  const uint64_t seed = run + 0x9e3779b97f4a7c15 * (rank + 1) + 0xc2b2ae3d27d4eb4f * (iteration + 1);
  return static_cast<unsigned>(mix(seed) >> 32) & mask_;
}

void Pattern::fill(void* to, uint64_t count, uint32_t rank, uint64_t iteration) const {
  auto* at = static_cast<std::byte*>(to);
  uint64_t run = 0;
  for (; (run + 1) * kRun <= count; ++run, at += kRun * element_)
    std::memcpy(at, &counting_[start(run, rank, iteration) * element_], kRun * element_);
  std::memcpy(at, &counting_[start(run, rank, iteration) * element_], (count - run * kRun) * element_);
}

uint64_t Pattern::errors(const void* recv, const std::vector<Part>& parts, uint64_t iteration) const {
  uint64_t wrong = 0;
  for (const Part& part : parts) wrong += errors_in(static_cast<const std::byte*>(recv), part, iteration);
  return wrong;
}

uint64_t Pattern::errors_in(const std::byte* recv, const Part& part, uint64_t iteration) const {
  const bool all = part.source == Part::kAllRanks;
  const uint32_t first = all ? 0 : part.source, last = all ? ranks_ : part.source + 1;
  std::vector<unsigned> starts(last - first);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < part.count;) {
    const uint64_t index = part.from + i, run = index / kRun;
    const uint64_t end = std::min(part.count, (run + 1) * kRun - part.from);
    for (uint32_t rank = first; rank < last; ++rank) starts[rank - first] = start(run, rank, iteration);
    for (; i < end; ++i) {
      const auto offset = static_cast<unsigned>((part.from + i) % kRun);
      unsigned sum = 0;
      for (const unsigned s : starts) sum += (s + offset) & mask_;
      wrong += std::memcmp(recv + (part.at + i) * element_, &sums_[sum * element_], element_) != 0;
    }
  }
  return wrong;
}

}  // namespace floe::bench
