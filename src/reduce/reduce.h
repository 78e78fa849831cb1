// Element-wise reduction: one entry point over all types and operations, dispatched at run time to the
// best instruction set. All of them give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace floe {

// FLOE_ERR_UNSUPPORTED in words if `op` has no meaning for `type` (avg of integers), FLOE_ERR_ARGUMENT if
// either value is unknown.
Status check_reduction(int type, int op);

// For every i: r = srcs[0][i] op srcs[1][i] op ... in that order, and every dsts[k][i] = r. 16-bit floats
// accumulate in float32 and round once, to nearest even, subnormals kept. FLOE_AVG is the sum divided by
// `divisor` (1 or more), in the accumulator's type, before that rounding. Integers wrap around. min and max
// propagate NaN, and order -0 before +0. A NaN result is the canonical quiet one; a single source without
// FLOE_AVG is copied as it is. The thread's floating-point environment neither matters nor changes.
//   dsts, srcs  1 or more each, aligned to a byte only. A destination may be the very address of a source;
//               there is no other overlap.
//   count       elements; 0 is allowed
//   type, op    have passed check_reduction
// Threads: any, at once.
void reduce(std::span<void* const> dsts, std::span<const void* const> srcs, uint64_t count, int type, int op,
            uint32_t divisor);

// Caps dispatch to the named instruction set ("" = best): FLOE_ISA. FLOE_ERR_ENVIRONMENT lists the names this
// machine has. Not thread-safe against reduce().
Status set_isa(std::string_view name);
std::string_view isa_name();               // what reduce() uses
std::span<const std::string> isa_names();  // what this machine can run, best first

}  // namespace floe
