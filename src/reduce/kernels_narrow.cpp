#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/kernels_narrow.cpp"
#include <hwy/foreach_target.h>

#include "reduce/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;

// Integers only: no floating-point environment matters, and every machine gives the same bits.
template <class Access>
HWY_INLINE void narrow_vector(uint8_t* to, const uint8_t* from, Access access) {
  const U32 d;
  const hn::RebindToSigned<U32> ds;
  const auto bits = access.load(d, from);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu)));
  const auto magnitude = hn::BitCast(ds, hn::And(bits, hn::Set(d, 0x7FFFFFFFu)));
  const auto is_nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(ds, 0x7F800000)));
  const auto result = hn::IfThenElse(is_nan, hn::Set(d, 0x7FC00000u), rounded);
  access.store(U16(), hn::TruncateTo(U16(), hn::ShiftRight<16>(result)), to);
}

template <class Access>
HWY_INLINE void widen_vector(uint8_t* to, const uint8_t* from, Access access) {
  const U32 d;
  access.store(d, hn::ShiftLeft<16>(hn::PromoteTo(d, access.load(U16(), from))), to);
}

void narrow_bf16(void* to, const void* from, uint64_t count) {
  auto* const out = static_cast<uint8_t*>(to);
  const auto* const in = static_cast<const uint8_t*>(from);
  const size_t lanes = hn::Lanes(F32());
  uint64_t at = 0;
  for (; count - at >= lanes; at += lanes) narrow_vector(out + 2 * at, in + 4 * at, Whole());
  if (at < count) narrow_vector(out + 2 * at, in + 4 * at, First{static_cast<size_t>(count - at)});
}

void widen_bf16(void* to, const void* from, uint64_t count) {
  auto* const out = static_cast<uint8_t*>(to);
  const auto* const in = static_cast<const uint8_t*>(from);
  const size_t lanes = hn::Lanes(F32());
  uint64_t at = 0;
  for (; count - at >= lanes; at += lanes) widen_vector(out + 4 * at, in + 2 * at, Whole());
  if (at < count) widen_vector(out + 4 * at, in + 2 * at, First{static_cast<size_t>(count - at)});
}

Conversions bf16_conversions() { return {narrow_bf16, widen_bf16}; }

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace floe {

HWY_EXPORT(bf16_conversions);

Conversions conversions(int64_t target) {
  return HWY_DISPATCH_TABLE(bf16_conversions)[dispatch_index(target)]();
}

}  // namespace floe
#endif
