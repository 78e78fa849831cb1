#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/kernels_float8.cpp"
#include <hwy/foreach_target.h>

#include "reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

void fill_float8_kernels(KernelTable& table) {
  add_float_ops<Float8E4M3>(table[FLOE_FLOAT8_E4M3]);
  add_float_ops<Float8E5M2>(table[FLOE_FLOAT8_E5M2]);
}

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace floe {

HWY_EXPORT(fill_float8_kernels);

void add_float8_kernels(int64_t target, KernelTable& table) {
  HWY_DISPATCH_TABLE(fill_float8_kernels)[dispatch_index(target)](table);
}

}  // namespace floe
#endif
