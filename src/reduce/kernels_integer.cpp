#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/kernels_integer.cpp"
#include <hwy/foreach_target.h>

#include "reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

// Sums and products modulo 2^n are the same for signed and unsigned.
template <class Signed, class Unsigned>
void add_integer_ops(KernelTable& table, floe_type_t signed_type, floe_type_t unsigned_type) {
  for (const floe_type_t type : {signed_type, unsigned_type}) {
    table[type][FLOE_SUM] = kernels<Plain<Unsigned>, Sum>();
    table[type][FLOE_PRODUCT] = kernels<Plain<Unsigned>, Product>();
  }
  table[signed_type][FLOE_MIN] = kernels<Plain<Signed>, Minimum>();
  table[signed_type][FLOE_MAX] = kernels<Plain<Signed>, Maximum>();
  table[unsigned_type][FLOE_MIN] = kernels<Plain<Unsigned>, Minimum>();
  table[unsigned_type][FLOE_MAX] = kernels<Plain<Unsigned>, Maximum>();
}

void add_bool_ops(std::array<KernelSet, kOps>& row) {
  row[FLOE_SUM] = row[FLOE_MAX] = row[FLOE_BOR] = kernels<Boolean, BitOr>();
  row[FLOE_PRODUCT] = row[FLOE_MIN] = row[FLOE_BAND] = kernels<Boolean, BitAnd>();
  row[FLOE_BXOR] = kernels<Boolean, BitXor>();
}

void fill_integer_kernels(KernelTable& table) {
  add_integer_ops<int8_t, uint8_t>(table, FLOE_INT8, FLOE_UINT8);
  add_integer_ops<int16_t, uint16_t>(table, FLOE_INT16, FLOE_UINT16);
  add_integer_ops<int32_t, uint32_t>(table, FLOE_INT32, FLOE_UINT32);
  add_integer_ops<int64_t, uint64_t>(table, FLOE_INT64, FLOE_UINT64);
  // reduce() takes the bits of every integer as bytes.
  table[FLOE_UINT8][FLOE_BAND] = kernels<Plain<uint8_t>, BitAnd>();
  table[FLOE_UINT8][FLOE_BOR] = kernels<Plain<uint8_t>, BitOr>();
  table[FLOE_UINT8][FLOE_BXOR] = kernels<Plain<uint8_t>, BitXor>();
  add_bool_ops(table[FLOE_BOOL]);
}

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace floe {

HWY_EXPORT(fill_integer_kernels);

void add_integer_kernels(int64_t target, KernelTable& table) {
  HWY_DISPATCH_TABLE(fill_integer_kernels)[dispatch_index(target)](table);
}

}  // namespace floe
#endif
