// The table of kernels, and what fills it: one source file for each family of types, compiled once for
// every instruction set.
#pragma once

#include <floe/floe.h>

// A block of accumulators is a struct of vectors, which SVE's sizeless types cannot be: NEON serves those
// machines. AVX3_DL adds nothing that a reduction uses, and Highway 1.0.3 rejects compiler flags that include
// it (-march=native). Machines that stop at SSSE3 are older than 2010: not worth a fifth of the compile time.
#define FLOE_USELESS_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_AVX3_DL | HWY_SSSE3)
// Instrumented, each target takes minutes to compile: x86's first and last have all that there is to find.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (FLOE_USELESS_TARGETS | HWY_AVX2 | HWY_SSE4)
#else
#define HWY_DISABLED_TARGETS FLOE_USELESS_TARGETS
#endif
#include <hwy/targets.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace floe {

// Elements [begin, end) of one reduction.
struct Job {
  const void* const* sources;
  size_t source_count;
  std::array<void*, 2> destinations;
  uint64_t begin;
  uint64_t end;
  uint32_t divisor;
  const double* factors;  // of kPremulSum, by source
  // Bytes before two sources are added to ask for them, and for where the result goes; 0: not at all.
  uint32_t ahead = 0;
};

using Kernel = void (*)(const Job&);

// The same reduction for the numbers of buffers that are worth a loop of their own.
struct KernelSet {
  Kernel two_to_one;
  Kernel two_to_two;
  Kernel any_to_one;  // any: 1 or more sources
  Kernel any_to_two;
  uint8_t parts_log2 = 0;  // of the numbers that it sees in one element
};

using KernelTable = std::array<std::array<KernelSet, kOps>, kTypes>;  // [type][op]

// Between float32 and bfloat16, whose bits depend on no rounding mode.
struct Conversions {
  void (*narrow)(void* to, const void* from, uint64_t count);
  void (*widen)(void* to, const void* from, uint64_t count);
};
Conversions conversions(int64_t target);

void add_float_kernels(int64_t target, KernelTable& table);
void add_float8_kernels(int64_t target, KernelTable& table);
void add_half_kernels(int64_t target, KernelTable& table);
void add_native_bf16_kernels(int64_t target, KernelTable& table);  // in place of the others' bfloat16
void add_integer_kernels(int64_t target, KernelTable& table);
void add_complex_kernels(KernelTable& table);

// Where Highway's dispatch tables have `target`. The ChosenTarget is our own because Highway's is one for
// the process: capping that would cap every other library in it.
inline size_t dispatch_index([[maybe_unused]] int64_t target) {
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
  return 0;
#else
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return chosen.GetIndex();
#endif
}

}  // namespace floe
