#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/kernels_half.cpp"
#include <hwy/foreach_target.h>

#include "reduce/loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace floe {
namespace HWY_NAMESPACE {

void fill_half_kernels(KernelTable& table) {
  add_float_ops<BFloat16>(table[FLOE_BFLOAT16]);
  add_float_ops<Float16>(table[FLOE_FLOAT16]);
}

void fill_native_bf16_kernels([[maybe_unused]] KernelTable& table) {
#if FLOE_X86_BF16
  add_float_ops<NativeBFloat16>(table[FLOE_BFLOAT16]);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace floe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace floe {

HWY_EXPORT(fill_half_kernels);
HWY_EXPORT(fill_native_bf16_kernels);

void add_half_kernels(int64_t target, KernelTable& table) {
  HWY_DISPATCH_TABLE(fill_half_kernels)[dispatch_index(target)](table);
}

void add_native_bf16_kernels(int64_t target, KernelTable& table) {
  HWY_DISPATCH_TABLE(fill_native_bf16_kernels)[dispatch_index(target)](table);
}

}  // namespace floe
#endif
