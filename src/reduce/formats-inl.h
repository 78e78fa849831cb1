// Element formats: how a vector of stored elements becomes a block of accumulators and back.
// A format has
//   Stored            tag of the vector that is loaded and stored
//   Block             accumulators of as many elements
//   widen(v)          stored to accumulators, exactly
//   apply<Op>(a, b)   one operation on accumulators
//   divide(a, n)
//   multiply(a, x)    by a factor that the accumulator's type holds exactly
//   narrow(a)         accumulators to stored: the only rounding; a NaN becomes the one quiet, positive NaN
//                     without payload, since which payload an operation keeps depends on the machine
//   kUnroll           blocks of a step
// and, where numbers can be narrowed faster than that,
//   unusual(blocks)   whether narrow_usual would be wrong for any of them; rarely true without need
//   narrow_usual(a)
// Included once for each target.

#if defined(FLOE_REDUCE_FORMATS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLOE_REDUCE_FORMATS_INL_H
#undef FLOE_REDUCE_FORMATS_INL_H
#else
#define FLOE_REDUCE_FORMATS_INL_H
#endif

#include <limits>

#include "reduce/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

// Accumulates in its own type.
template <class T>
struct Plain {
  using Stored = hn::ScalableTag<T>;
  using Block = hn::Vec<Stored>;
  static constexpr size_t kUnroll = 2;

  static HWY_INLINE Block widen(Block v) { return v; }

  template <class Op>
  static HWY_INLINE Block apply(Block a, Block b) {
    return Op()(a, b);
  }

  static HWY_INLINE Block divide(Block a, uint32_t n) {
    return hn::Div(a, hn::Set(Stored(), static_cast<T>(n)));
  }

  static HWY_INLINE Block multiply(Block a, double factor) {
    return hn::Mul(a, hn::Set(Stored(), static_cast<T>(factor)));
  }

  static HWY_INLINE Block narrow(Block a) {
    if constexpr (hwy::IsFloat<T>()) {
      return hn::IfThenElse(hn::IsNaN(a), hn::Set(Stored(), std::numeric_limits<T>::quiet_NaN()), a);
    } else {
      return a;
    }
  }
};

// A byte that is not 0 is true; results are 0 or 1.
struct Boolean : Plain<uint8_t> {
  static HWY_INLINE Block widen(Block v) { return hn::Min(v, hn::Set(Stored(), uint8_t{1})); }
};

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<uint32_t>;
using VF32 = hn::Vec<F32>;
using VU32 = hn::Vec<U32>;

// Accumulates in one vector of float32.
struct InFloat32 {
  using Block = VF32;
  static constexpr size_t kUnroll = 2;

  template <class Op>
  static HWY_INLINE Block apply(Block a, Block b) {
    return Op()(a, b);
  }
  static HWY_INLINE Block divide(Block a, uint32_t n) { return Plain<float>::divide(a, n); }
  static HWY_INLINE Block multiply(Block a, double factor) { return Plain<float>::multiply(a, factor); }
};

// Any NaN of a 16-bit float to `quiet`; `infinity` is the largest magnitude that is none.
template <class D>
HWY_INLINE hn::Vec<D> canonical_nan(D d, hn::Vec<D> v, int16_t infinity, uint16_t quiet) {
  const hn::RebindToSigned<D> ds;
  const auto magnitude = hn::BitCast(ds, hn::And(v, hn::Set(d, uint16_t{0x7FFF})));
  const auto is_nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(ds, infinity)));
  return hn::IfThenElse(is_nan, hn::Set(d, quiet), v);
}

// Where either is NaN: one instruction on x86.
HWY_INLINE hn::Mask<F32> either_is_nan(VF32 a, VF32 b) {
#if FLOE_X86_VECTORS && HWY_TARGET <= HWY_AVX3
  return {_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q)};
#elif FLOE_X86_VECTORS && HWY_TARGET == HWY_AVX2
  return {_mm256_cmp_ps(a.raw, b.raw, _CMP_UNORD_Q)};
#elif FLOE_X86_VECTORS
  return {_mm_cmpunord_ps(a.raw, b.raw)};
#else
  return hn::Or(hn::IsNaN(a), hn::IsNaN(b));
#endif
}

#if HWY_TARGET == HWY_SCALAR

struct BFloat16 : InFloat32 {
  using Stored = hn::ScalableTag<uint16_t>;

  static HWY_INLINE Block widen(hn::Vec<Stored> v) {
    return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), v)));
  }
  static HWY_INLINE hn::Vec<Stored> narrow(Block a) {
    const U32 d;
    const VU32 bits = hn::BitCast(d, a);
    const VU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    const VU32 rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu)));
    return canonical_nan(Stored(), hn::TruncateTo(Stored(), hn::ShiftRight<16>(rounded)), 0x7F80, 0x7FC0);
  }
};

#else

// Even and odd elements apart: a bfloat16 is the upper half of a float32, so that neither way needs a
// permutation.
struct BFloat16 {
  using Stored = hn::ScalableTag<uint16_t>;
  struct Block {
    HWY_INLINE Block() {}  // written out to be compiled for the target, as an implicit one would not be
    HWY_INLINE Block(VF32 even_elements, VF32 odd_elements) : even(even_elements), odd(odd_elements) {}
    VF32 even, odd;
  };
  static constexpr size_t kUnroll = 2;

  static HWY_INLINE Block widen(hn::Vec<Stored> v) {
    const U32 d;
    const VU32 pair = hn::BitCast(d, v);
    const VU32 upper = hn::Set(d, 0xFFFF0000u);
    return {hn::BitCast(F32(), hn::ShiftLeft<16>(pair)), hn::BitCast(F32(), hn::And(pair, upper))};
  }

  template <class Op>
  static HWY_INLINE Block apply(Block a, Block b) {
    return {Op()(a.even, b.even), Op()(a.odd, b.odd)};
  }

  static HWY_INLINE Block divide(Block a, uint32_t n) {
    return {Plain<float>::divide(a.even, n), Plain<float>::divide(a.odd, n)};
  }

  static HWY_INLINE Block multiply(Block a, double factor) {
    return {Plain<float>::multiply(a.even, factor), Plain<float>::multiply(a.odd, factor)};
  }

  template <size_t kBlocks>
  static HWY_INLINE bool unusual(const Block (&blocks)[kBlocks]) {
    auto nan = either_is_nan(blocks[0].even, blocks[0].odd);
    for (size_t b = 1; b < kBlocks; ++b) nan = hn::Or(nan, either_is_nan(blocks[b].even, blocks[b].odd));
    return !hn::AllFalse(F32(), nan);
  }

  // The upper halves, rounded to nearest even: an integer addition of one makes the step to the next exponent
  // and to infinity too. (Highway's own demotion truncates on x86.)
  static HWY_INLINE hn::Vec<Stored> narrow_usual(Block a) {
    const Stored d;
    const auto even = hn::BitCast(U32(), a.even), odd = hn::BitCast(U32(), a.odd);
#if FLOE_X86_VECTORS && HWY_TARGET <= HWY_AVX3
    // One is added where the lower half is more than half of the upper's last bit, or is that and the last
    // bit is set: where lower | last bit is more. Byte masks and a comparison save a quarter of the
    // instructions.
    constexpr __mmask64 kUpperBytes = 0xCCCCCCCCCCCCCCCC;
    const __m512i swap_halves = _mm512_set4_epi32(0x0D0C0F0E, 0x09080B0A, 0x05040706, 0x01000302);
    const __m512i upper = _mm512_mask_shuffle_epi8(odd.raw, ~kUpperBytes, even.raw, swap_halves);
    const __m512i lower = _mm512_mask_shuffle_epi8(even.raw, kUpperBytes, odd.raw, swap_halves);
    constexpr int kFirstOrBoth = 0xF8;  // a | (b & c)
    const __m512i ties_up =
        _mm512_ternarylogic_epi32(lower, upper, hn::Set(d, uint16_t{1}).raw, kFirstOrBoth);
    const __mmask32 up = _mm512_cmpgt_epu16_mask(ties_up, hn::Set(d, uint16_t{0x8000}).raw);
    return hn::Vec<Stored>{_mm512_mask_sub_epi16(upper, up, upper, _mm512_set1_epi16(-1))};
#else
    // One is the carry of lower + 0x7FFF + (upper is odd), which is the upper bit of an average of 16-bit
    // words.
    const auto upper = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<16>(even)));
    const auto lower = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<16>(odd)), hn::BitCast(d, even));
    const auto addend = hn::Or(hn::And(upper, hn::Set(d, uint16_t{1})), hn::Set(d, uint16_t{0x7FFE}));
    return hn::Add(upper, hn::ShiftRight<15>(hn::AverageRound(lower, addend)));
#endif
  }

  // A NaN keeps its kind because its lower half is zero: it comes from bfloat16 NaNs or is the machine's
  // default.
  static HWY_INLINE hn::Vec<Stored> narrow(Block a) {
    return canonical_nan(Stored(), narrow_usual(a), 0x7F80, 0x7FC0);
  }
};

#if FLOE_X86_BF16

// Rounds by AVX512-BF16's instruction, which flushes subnormals and keeps payloads of NaN: blocks that have
// either go the other way. As assembly because Highway's targets lack this extension, and a function that has
// it could not be inlined into one that has not.
struct NativeBFloat16 : BFloat16 {
  template <size_t kBlocks>
  static HWY_INLINE bool unusual(const Block (&blocks)[kBlocks]) {
    constexpr int kQuietNan = 0x01, kSubnormal = 0x20, kSignallingNan = 0x80;
    constexpr int kClasses = kQuietNan | kSubnormal | kSignallingNan;
    __mmask16 any = 0;
    for (const Block& block : blocks)
      any |=
          _mm512_fpclass_ps_mask(block.even.raw, kClasses) | _mm512_fpclass_ps_mask(block.odd.raw, kClasses);
    return any != 0;
  }

  static HWY_INLINE hn::Vec<Stored> narrow_usual(Block a) {
    HWY_ALIGN static constexpr uint16_t kInterleave[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i halves;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(a.odd.raw), "v"(a.even.raw));
    return hn::Vec<Stored>{_mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), halves)};
  }
};

#endif

#endif

// A binary float of kBits bits, fewer than 32. The encodings from kFirstSpecial on are no numbers.
template <int kBits, int kMantissaBits, uint32_t kFirstSpecial>
struct SmallFloat {
  static constexpr uint32_t kSign = 1u << (kBits - 1);
  static constexpr uint32_t kBias = (1u << (kBits - kMantissaBits - 2)) - 1;
  static constexpr int kShift = 23 - kMantissaBits;

  // Exponent and mantissa moved into place and scaled by 2^(127 - bias), the difference of the biases: exact
  // for subnormals too.
  static HWY_INLINE VF32 widen(VU32 bits) {
    const U32 d;
    const VU32 sign = hn::ShiftLeft<32 - kBits>(hn::And(bits, hn::Set(d, kSign)));
    const VU32 small = hn::And(bits, hn::Set(d, kSign - 1));
    const VF32 moved = hn::BitCast(F32(), hn::ShiftLeft<kShift>(small));
    const VF32 scale = hn::BitCast(F32(), hn::Set(d, (254 - kBias) << 23));
    const VU32 magnitude = hn::BitCast(d, hn::Mul(moved, scale));
    const VU32 special = hn::Or(magnitude, hn::Set(d, 0x7F800000u));
    const hn::RebindToSigned<U32> ds;
    const auto is_special = hn::RebindMask(
        d, hn::Gt(hn::BitCast(ds, small), hn::Set(ds, static_cast<int32_t>(kFirstSpecial) - 1)));
    return hn::BitCast(F32(), hn::Or(sign, hn::IfThenElse(is_special, special, magnitude)));
  }

  // To nearest even; magnitudes beyond `largest` become that, and every NaN `nan`. Normal results round by
  // the carry of an integer addition, as for bfloat16. Subnormal ones are multiples of the format's smallest
  // number, the last place of `unit`: adding that rounds them, to nearest even as every addition.
  static HWY_INLINE VU32 narrow(VF32 v, uint32_t largest, uint32_t nan) {
    const U32 d;
    const hn::RebindToSigned<U32> ds;
    const VU32 bits = hn::BitCast(d, v);
    const VU32 magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFu));
    const VU32 sign = hn::ShiftRight<32 - kBits>(hn::Xor(bits, magnitude));

    const VU32 odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(d, 1u));
    const VU32 below_half = hn::Set(d, (1u << (kShift - 1)) - 1);
    const VU32 rebiased = hn::Sub(hn::Add(magnitude, below_half), hn::Set(d, (127 - kBias) << 23));
    const VU32 normal = hn::ShiftRight<kShift>(hn::Add(rebiased, odd));

    const VF32 unit = hn::BitCast(F32(), hn::Set(d, (128 - kBias + kShift) << 23));
    const VF32 shifted = hn::Add(hn::BitCast(F32(), magnitude), unit);
    const VU32 subnormal = hn::Sub(hn::BitCast(d, shifted), hn::BitCast(d, unit));

    const auto compare = hn::BitCast(ds, magnitude);
    const auto is_subnormal =
        hn::RebindMask(d, hn::Lt(compare, hn::Set(ds, static_cast<int32_t>((128 - kBias) << 23))));
    const auto is_nan = hn::RebindMask(d, hn::Gt(compare, hn::Set(ds, 0x7F800000)));
    const VU32 rounded = hn::Min(hn::IfThenElse(is_subnormal, subnormal, normal), hn::Set(d, largest));
    return hn::IfThenElse(is_nan, hn::Set(d, nan), hn::Or(rounded, sign));
  }
};

#if FLOE_NATIVE_F16

HWY_INLINE VF32 float16_to_float(hn::Vec<hn::Rebind<uint16_t, F32>> v) {
  return hn::PromoteTo(F32(), hn::BitCast(hn::Rebind<hwy::float16_t, F32>(), v));
}

HWY_INLINE hn::Vec<hn::Rebind<uint16_t, F32>> float_to_float16(VF32 v) {
  return hn::BitCast(hn::Rebind<uint16_t, F32>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, F32>(), v));
}

#else

using EmulatedFloat16 = SmallFloat<16, 10, 0x7C00>;

HWY_INLINE VF32 float16_to_float(hn::Vec<hn::Rebind<uint16_t, F32>> v) {
  return EmulatedFloat16::widen(hn::PromoteTo(U32(), v));
}

HWY_INLINE hn::Vec<hn::Rebind<uint16_t, F32>> float_to_float16(VF32 v) {
  return hn::TruncateTo(hn::Rebind<uint16_t, F32>(), EmulatedFloat16::narrow(v, 0x7C00, 0x7E00));
}

#endif

struct Float16 : InFloat32 {
  using Stored = hn::Rebind<uint16_t, F32>;
  static constexpr size_t kUnroll = 4;  // of half a vector

  static HWY_INLINE Block widen(hn::Vec<Stored> v) { return float16_to_float(v); }

  template <size_t kBlocks>
  static HWY_INLINE bool unusual(const Block (&blocks)[kBlocks]) {
    auto nan = either_is_nan(blocks[0], blocks[kBlocks - 1]);
    for (size_t b = 1; b + 1 < kBlocks; b += 2) nan = hn::Or(nan, either_is_nan(blocks[b], blocks[b + 1]));
    return !hn::AllFalse(F32(), nan);
  }

  static HWY_INLINE hn::Vec<Stored> narrow_usual(Block a) { return float_to_float16(a); }
  static HWY_INLINE hn::Vec<Stored> narrow(Block a) {
    return canonical_nan(Stored(), float_to_float16(a), 0x7C00, 0x7E00);
  }
};

// Results beyond the range, and NaN, are what PyTorch's conversion from float32 makes of them.
template <int kMantissaBits, uint32_t kFirstSpecial, uint32_t kLargest>
struct Float8 : InFloat32 {
  using Stored = hn::Rebind<uint8_t, F32>;
  using Small = SmallFloat<8, kMantissaBits, kFirstSpecial>;

  static HWY_INLINE Block widen(hn::Vec<Stored> v) { return Small::widen(hn::PromoteTo(U32(), v)); }
  static HWY_INLINE hn::Vec<Stored> narrow(Block a) {
    return hn::TruncateTo(Stored(), Small::narrow(a, kLargest, 0x7F));
  }
};

using Float8E4M3 = Float8<3, 0x7F, 0x7E>;  // saturates at 448
using Float8E5M2 = Float8<2, 0x7C, 0x7C>;  // infinity

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#endif
