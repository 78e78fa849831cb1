// Element-wise reduction: one entry point over all types and operations, dispatched at run time to the
// best instruction set. All of them give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace floe {

// FLOE_ERR_UNSUPPORTED in words if `op`, a floe_op_t or kPremulSum, has no meaning for `type` (avg of
// integers), FLOE_ERR_ARGUMENT if either value is unknown.
Status bad_reduction(int type, int op);
inline Status check_reduction(int type, int op) {
  if (!is_reduction(type, op)) [[unlikely]]
    return bad_reduction(type, op);
  return {};
}

// For every i: r = srcs[0][i] op srcs[1][i] op ... in that order, and every dsts[k][i] = r. 16- and
// 8-bit floats accumulate in float32 and round once, to nearest even, subnormals kept. FLOE_AVG is the sum
// divided by `divisor` (1 or more), in the accumulator's type, before that rounding; kPremulSum is the sum of
// factors[s] * srcs[s][i], products in the accumulator's type too. Integers wrap around. min and max
// propagate NaN, and order -0 before +0. A NaN result is the canonical quiet one; a single source without
// FLOE_AVG or kPremulSum is copied as it is. The thread's floating-point environment neither matters nor
// changes.
//   dsts, srcs  1 or more each, aligned to a byte only. A destination may be the very address of a source;
//               there is no other overlap.
//   count       elements; 0 is allowed
//   type, op    have passed check_reduction
//   factors     of kPremulSum: one for each source, values of `type`
// Threads: any, at once.
void reduce(std::span<void* const> dsts, std::span<const void* const> srcs, uint64_t count, int type, int op,
            uint32_t divisor, std::span<const double> factors = {});

struct Job;
// reduce() of `sources` buffers, two or more, into one, decided once for many calls; FLOE_AVG divides by
// `sources`. Threads: any.
class FixedReduction {
 public:
  FixedReduction(uint64_t count, int type, int op, uint32_t sources);
  void operator()(void* destination, const void* const* sources) const;

 private:
  void (*kernel_)(const Job&);
  uint64_t count_;
  uint32_t sources_;
  uint32_t ahead_;
};
// float32 to bfloat16, to nearest even, subnormals kept, a NaN to the one quiet, positive NaN; and back,
// exactly. Aligned to a byte only; no overlap.
void narrow(void* bfloat16, const void* float32, uint64_t count);
void widen(void* float32, const void* bfloat16, uint64_t count);

// reduce() of float32 elements, some of whose sources are stored as bfloat16, as the result may be: still
// float32 sums in the order of the sources; the result is rounded once if it is narrow. sum, avg, premul-sum.
struct Source {
  const void* data = nullptr;
  bool narrow = false;  // bfloat16
};
void reduce_mixed(void* dst, bool narrow_dst, std::span<const Source> srcs, uint64_t count, int op,
                  uint32_t divisor, std::span<const double> factors = {});

// The value of one element, of any alignment, of a floating-point type; exact.
double float_value(int type, const void* element);

// Caps dispatch of this process to the named instruction set ("" = best): FLOE_ISA. FLOE_ERR_ENVIRONMENT
// lists the names this machine has. Threads: any, also while others reduce: a reduction uses one throughout.
Status set_isa(std::string_view name);
std::string_view isa_name();               // what reduce() uses
std::span<const std::string> isa_names();  // what this machine can run, best first

}  // namespace floe
