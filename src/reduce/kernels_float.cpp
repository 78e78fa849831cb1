#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/kernels_float.cpp"
#include <hwy/foreach_target.h>

#include "reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

void fill_float_kernels(KernelTable& table) {
  add_float_ops<Plain<float>>(table[FLOE_FLOAT32]);
  add_float_ops<Plain<double>>(table[FLOE_FLOAT64]);
}

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace floe {

HWY_EXPORT(fill_float_kernels);

void add_float_kernels(int64_t target, KernelTable& table) {
  HWY_DISPATCH_TABLE(fill_float_kernels)[dispatch_index(target)](table);
}

}  // namespace floe
#endif
