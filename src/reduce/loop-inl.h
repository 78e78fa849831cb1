// The one loop: over elements outside, over sources inside, so that accumulators stay in registers and each
// byte is read and written once. Included once for each target.

#if defined(FLOE_REDUCE_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLOE_REDUCE_LOOP_INL_H
#undef FLOE_REDUCE_LOOP_INL_H
#else
#define FLOE_REDUCE_LOOP_INL_H
#endif

#include "base/cache_hints.h"
#include "reduce/formats-inl.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

// What is done to accumulators beside the operation.
enum class Scaling {
  kNone,
  kDivisor,  // the result is divided
  kFactors,  // each source is multiplied by a factor of its own
};

// kSources: 2, or 0 for as many as the job has. Every block is loaded from all sources before it is stored
// anywhere: a destination may be a source.
template <class Format, class Op, Scaling kScaling, int kSources, int kDestinations>
class Loop {
 public:
  HWY_INLINE explicit Loop(const Job& job)
      : sources_(job.sources),
        source_count_(job.source_count),
        first_(static_cast<const uint8_t*>(job.sources[0])),
        second_(kSources == 2 ? static_cast<const uint8_t*>(job.sources[1]) : nullptr),
        destination_(static_cast<uint8_t*>(job.destinations[0])),
        copy_(static_cast<uint8_t*>(job.destinations[1])),
        divisor_(job.divisor),
        factors_(job.factors),
        ahead_(job.ahead / kSize) {}

  HWY_INLINE void run(uint64_t begin, uint64_t end) const {
    constexpr size_t kUnroll = Format::kUnroll;
    const size_t lanes = hn::Lanes(Stored());
    const uint64_t unrolled = kUnroll * lanes;
    // Not the lines behind the last element: another core may be writing them.
    const uint64_t fetched = kSources == 2 && ahead_ != 0 ? ahead_ + unrolled : ~uint64_t{0};
    uint64_t at = begin;
    if constexpr (kSources == 2)
      if (ahead_ != 0) at = run_fetching_destinations(at, end);
    for (; end - at >= unrolled; at += unrolled) {
      if (end - at >= fetched) fetch<kUnroll>((at + ahead_) * kSize);
      step<kUnroll>(at, Whole());
    }
    for (; end - at >= lanes; at += lanes) step<1>(at, Whole());
    if (at < end) step<1>(at, First{static_cast<size_t>(end - at)});
  }

 private:
  using Stored = typename Format::Stored;
  using Block = typename Format::Block;
  static constexpr size_t kSize = sizeof(hn::TFromD<Stored>);

  // A destination, if it is no source; else null.
  const uint8_t* only_written(const uint8_t* destination) const {
    return destination == first_ || destination == second_ ? nullptr : destination;
  }

  // A part of it, where a destination is no source: stores to memory that is in no near cache would wait for
  // it. Returns where it ends. A loop of its own: a look at these in each turn of the other one costs sums in
  // place up to a tenth.
  HWY_INLINE uint64_t run_fetching_destinations(uint64_t at, uint64_t end) const {
    constexpr size_t kUnroll = Format::kUnroll;
    const uint64_t unrolled = kUnroll * hn::Lanes(Stored());
    const uint8_t* const one = only_written(destination_);
    const uint8_t* const two = kDestinations == 2 ? only_written(copy_) : nullptr;
    for (; (one || two) && end - at >= ahead_ + unrolled; at += unrolled) {
      const size_t offset = (at + ahead_) * kSize;
      fetch<kUnroll>(offset);
      if (one) fetch_to_write<kUnroll>(one + offset);
      if (two) fetch_to_write<kUnroll>(two + offset);
      step<kUnroll>(at, Whole());
    }
    return at;
  }

  // Into the second-level cache, of both sources.
  template <size_t kBlocks>
  HWY_INLINE void fetch(uint64_t offset) const {
    constexpr size_t kLine = 64;
    const size_t bytes = kBlocks * hn::Lanes(Stored()) * kSize;
    for (size_t line = 0; line < bytes; line += kLine) {
      __builtin_prefetch(first_ + offset + line, 0, 2);
      __builtin_prefetch(second_ + offset + line, 0, 2);
    }
  }

  template <size_t kBlocks>
  static HWY_INLINE void fetch_to_write(const uint8_t* to) {
    constexpr size_t kLine = 64;
    const size_t bytes = kBlocks * hn::Lanes(Stored()) * kSize;
    for (size_t line = 0; line < bytes; line += kLine) prefetch_to_write(to + line);
  }

  template <size_t kBlocks, class Access>
  HWY_INLINE void step(uint64_t at, Access access) const {
    const size_t stride = hn::Lanes(Stored()) * kSize;
    const size_t offset = at * kSize;
    Block sum[kBlocks];
    for (size_t b = 0; b < kBlocks; ++b) sum[b] = load(first_ + offset + b * stride, 0, access);
    if constexpr (kSources == 2) {
      for (size_t b = 0; b < kBlocks; ++b) add(sum[b], second_ + offset + b * stride, 1, access);
    } else {
      for (size_t s = 1; s < source_count_; ++s) {
        const uint8_t* source = static_cast<const uint8_t*>(sources_[s]) + offset;
        for (size_t b = 0; b < kBlocks; ++b) add(sum[b], source + b * stride, s, access);
      }
    }
    if constexpr (kScaling == Scaling::kDivisor)
      for (Block& block : sum) block = Format::divide(block, divisor_);
    if constexpr (requires { Format::unusual(sum); }) {
      if (HWY_LIKELY(!Format::unusual(sum))) {
        for (size_t b = 0; b < kBlocks; ++b) store(Format::narrow_usual(sum[b]), offset + b * stride, access);
        return;
      }
    }
    for (size_t b = 0; b < kBlocks; ++b) store(Format::narrow(sum[b]), offset + b * stride, access);
  }

  template <class Access>
  HWY_INLINE Block load(const uint8_t* from, [[maybe_unused]] size_t source, Access access) const {
    const Block block = Format::widen(access.load(Stored(), from));
    if constexpr (kScaling == Scaling::kFactors) {
      return Format::multiply(block, factors_[source]);
    } else {
      return block;
    }
  }

  template <class Access>
  HWY_INLINE void add(Block& sum, const uint8_t* from, size_t source, Access access) const {
    sum = Format::template apply<Op>(sum, load(from, source, access));
  }

  template <class Access>
  HWY_INLINE void store(hn::Vec<Stored> result, size_t offset, Access access) const {
    access.store(Stored(), result, destination_ + offset);
    if constexpr (kDestinations == 2) access.store(Stored(), result, copy_ + offset);
  }

  const void* const* sources_;
  size_t source_count_;
  const uint8_t* first_;
  const uint8_t* second_;
  uint8_t* destination_;
  uint8_t* copy_;
  uint32_t divisor_;
  const double* factors_;
  uint64_t ahead_;  // elements
};

template <class Format, class Op, Scaling kScaling, int kSources, int kDestinations>
void kernel(const Job& job) {
  Loop<Format, Op, kScaling, kSources, kDestinations>(job).run(job.begin, job.end);
}

template <class Format, class Op, Scaling kScaling = Scaling::kNone>
KernelSet kernels() {
  return {kernel<Format, Op, kScaling, 2, 1>, kernel<Format, Op, kScaling, 2, 2>,
          kernel<Format, Op, kScaling, 0, 1>, kernel<Format, Op, kScaling, 0, 2>};
}

template <class Format>
void add_float_ops(std::array<KernelSet, kOps>& row) {
  row[FLOE_SUM] = kernels<Format, Sum>();
  row[FLOE_AVG] = kernels<Format, Sum, Scaling::kDivisor>();
  row[FLOE_PRODUCT] = kernels<Format, Product>();
  row[FLOE_MIN] = kernels<Format, Minimum>();
  row[FLOE_MAX] = kernels<Format, Maximum>();
  row[kPremulSum] = kernels<Format, Sum, Scaling::kFactors>();
}

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#endif
