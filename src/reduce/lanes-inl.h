// What Highway lacks, or gives different bits for on different targets: unaligned and partial loads,
// minimum and maximum with defined zeros and NaN, products of 8-bit integers, 16-bit floats.
// Included once for each target.

#if defined(FLOE_REDUCE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLOE_REDUCE_LANES_INL_H
#undef FLOE_REDUCE_LANES_INL_H
#else
#define FLOE_REDUCE_LANES_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// x86's min and max are this very selection; elsewhere (NEON, scalar) Highway's differ in NaN and zeros.
#define FLOE_X86_VECTORS (HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
// Conversions in hardware, which keep subnormals and round as the environment says: to nearest even.
#define FLOE_NATIVE_F16 (HWY_TARGET == HWY_NEON || (FLOE_X86_VECTORS && HWY_TARGET <= HWY_AVX2))
// Targets some of whose machines have AVX512-BF16.
#define FLOE_X86_BF16 (FLOE_X86_VECTORS && HWY_TARGET <= HWY_AVX3)

// ---- Memory: byte alignment only -----------------------------------------------------------------

// All lanes of a vector.
struct Whole {
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const uint8_t* from) const {
#if HWY_TARGET == HWY_SCALAR
    hn::TFromD<D> value;
    std::memcpy(&value, from, sizeof(value));
    return hn::Set(d, value);
#else
    return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
#endif
  }

  template <class D>
  HWY_INLINE void store(D /*d*/, hn::Vec<D> v, uint8_t* to) const {
#if HWY_TARGET == HWY_SCALAR
    const auto value = hn::GetLane(v);
    std::memcpy(to, &value, sizeof(value));
#else
    const hn::Repartition<uint8_t, D> bytes;
    hn::StoreU(hn::BitCast(bytes, v), bytes, to);
#endif
  }
};

#if HWY_TARGET == HWY_SCALAR

// Some of one lane: never used.
struct First {
  size_t lanes;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const uint8_t* from) const {
    return Whole().load(d, from);
  }
  template <class D>
  HWY_INLINE void store([[maybe_unused]] D d, hn::Vec<D> v, uint8_t* to) const {
    Whole().store(d, v, to);
  }
};

#else

// Fewer than 16 bytes as one number, in no more reads and writes than can't be avoided: a call of memcpy to a
// buffer and a load of what several stores wrote there take longer than all the rest of a small reduction.
__extension__ using FewBytes = unsigned __int128;

template <class Word>
HWY_INLINE Word read_word(const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

template <class Word>
HWY_INLINE void write_word(FewBytes bytes, uint8_t* to) {
  const auto word = static_cast<Word>(bytes);
  std::memcpy(to, &word, sizeof(word));
}

// Of two words that overlap, or of bytes.
template <class Word>
HWY_INLINE FewBytes read_ends(const uint8_t* from, size_t count) {
  const size_t second = count - sizeof(Word);
  return read_word<Word>(from) | FewBytes{read_word<Word>(from + second)} << (8 * second);
}

template <class Word>
HWY_INLINE void write_ends(FewBytes bytes, uint8_t* to, size_t count) {
  const size_t second = count - sizeof(Word);
  write_word<Word>(bytes, to);
  write_word<Word>(bytes >> (8 * second), to + second);
}

HWY_INLINE FewBytes read_few(const uint8_t* from, size_t count) {
  if (count >= 8) return read_ends<uint64_t>(from, count);
  if (count >= 4) return read_ends<uint32_t>(from, count);
  if (count >= 2) return read_ends<uint16_t>(from, count);
  return count != 0 ? *from : 0;
}

HWY_INLINE void write_few(FewBytes bytes, uint8_t* to, size_t count) {
  if (count >= 8) return write_ends<uint64_t>(bytes, to, count);
  if (count >= 4) return write_ends<uint32_t>(bytes, to, count);
  if (count >= 2) return write_ends<uint16_t>(bytes, to, count);
  if (count != 0) *to = static_cast<uint8_t>(bytes);
}

// The first `lanes` of a vector, fewer than all, without touching the memory of the others, which load as
// zero and are not stored.
struct First {
  size_t lanes;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const uint8_t* from) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    return hn::BitCast(d, load_bytes(hn::Repartition<uint8_t, D>(), from, lanes * sizeof(hn::TFromD<D>)));
#else
    return hn::MaskedLoad(hn::FirstN(d, lanes), d, reinterpret_cast<const hn::TFromD<D>*>(from));
#endif
  }

  template <class D>
  HWY_INLINE void store([[maybe_unused]] D d, hn::Vec<D> v, uint8_t* to) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    const hn::Repartition<uint8_t, D> bytes;
    store_bytes(bytes, hn::BitCast(bytes, v), to, lanes * sizeof(hn::TFromD<D>));
#else
    hn::BlendedStore(v, hn::FirstN(d, lanes), d, reinterpret_cast<hn::TFromD<D>*>(to));
#endif
  }

#if HWY_MEM_OPS_MIGHT_FAULT
 private:
  template <class D>
  using Word = std::conditional_t<hn::MaxLanes(D()) >= 8, uint64_t, uint32_t>;

  template <class D>
  static HWY_INLINE hn::Vec<D> load_bytes(D d, const uint8_t* from, size_t count) {
    if constexpr (hn::MaxLanes(D()) > 16) {
      const hn::Half<D> half;
      if (count < 16) return hn::ZeroExtendVector(d, load_bytes(half, from, count));
      return hn::Combine(d, load_bytes(half, from + 16, count - 16), hn::LoadU(half, from));
    } else {
      const hn::Repartition<Word<D>, D> words;
      const FewBytes bytes = read_few(from, count);
      auto v = hn::Set(words, static_cast<Word<D>>(bytes));
      if constexpr (hn::MaxLanes(D()) == 16)
        v = hn::OddEven(hn::Set(words, static_cast<Word<D>>(bytes >> 64)), v);
      return hn::BitCast(d, v);
    }
  }

  template <class D>
  static HWY_INLINE void store_bytes([[maybe_unused]] D d, hn::Vec<D> v, uint8_t* to, size_t count) {
    if constexpr (hn::MaxLanes(D()) > 16) {
      const hn::Half<D> half;
      if (count < 16) return store_bytes(half, hn::LowerHalf(half, v), to, count);
      hn::StoreU(hn::LowerHalf(half, v), half, to);
      store_bytes(half, hn::UpperHalf(half, v), to + 16, count - 16);
    } else {
      const auto words = hn::BitCast(hn::Repartition<Word<D>, D>(), v);
      FewBytes bytes = hn::GetLane(words);
      if constexpr (hn::MaxLanes(D()) == 16) bytes |= FewBytes{hn::ExtractLane(words, 1)} << 64;
      write_few(bytes, to, count);
    }
  }
#endif
};

#endif

// ---- Minimum and maximum -------------------------------------------------------------------------

// a < b ? a : b
template <class V>
HWY_INLINE V smaller_or_second(V a, V b) {
#if FLOE_X86_VECTORS
  return hn::Min(a, b);
#else
  return hn::IfThenElse(hn::Lt(a, b), a, b);
#endif
}

// a > b ? a : b
template <class V>
HWY_INLINE V larger_or_second(V a, V b) {
#if FLOE_X86_VECTORS
  return hn::Max(a, b);
#else
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
}

// IEEE 754-2019 minimum: NaN if either is, and -0 < +0. The two selections differ only where an operand is
// NaN or both are zero; there the union of bits is a NaN, and -0 if either is.
template <class V>
HWY_INLINE V float_min(V a, V b) {
  return hn::Or(smaller_or_second(a, b), smaller_or_second(b, a));
}

// IEEE 754-2019 maximum, likewise. Of two different zeros the union is -0 and so is the difference of bits:
// -0 - -0 is the +0 wanted. Elsewhere the difference is +0, or the union is NaN: no change.
template <class V>
HWY_INLINE V float_max(V a, V b) {
  const V one = larger_or_second(a, b);
  const V other = larger_or_second(b, a);
  return hn::Sub(hn::Or(one, other), hn::Xor(one, other));
}

// ---- Operations: op(accumulator, next) -----------------------------------------------------------

template <class V>
using LaneOf = hn::TFromD<hn::DFromV<V>>;

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (sizeof(LaneOf<V>) == 1) {
      return multiply_bytes(a, b);
    } else {
      return hn::Mul(a, b);
    }
  }

 private:
  // Unsigned bytes modulo 256, odd and even ones apart.
  template <class V>
  static HWY_INLINE V multiply_bytes(V a, V b) {
    const hn::DFromV<V> bytes;
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(bytes, static_cast<uint8_t>(hn::GetLane(a) * hn::GetLane(b)));
#else
    const hn::RepartitionToWide<decltype(bytes)> pairs;
    const auto low_byte = hn::Set(pairs, uint16_t{0xFF});
    const auto a2 = hn::BitCast(pairs, a);
    const auto b2 = hn::BitCast(pairs, b);
    const auto even = hn::And(hn::Mul(a2, b2), low_byte);
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a2), hn::ShiftRight<8>(b2)));
    return hn::BitCast(bytes, hn::Or(even, odd));
#endif
  }
};

struct Minimum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (hwy::IsFloat<LaneOf<V>>()) {
      return float_min(a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Maximum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (hwy::IsFloat<LaneOf<V>>()) {
      return float_max(a, b);
    } else {
      return hn::Max(a, b);
    }
  }
};

struct BitAnd {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::And(a, b);
  }
};

struct BitOr {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Or(a, b);
  }
};

struct BitXor {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Xor(a, b);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#endif
