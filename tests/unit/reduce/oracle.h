// What a reduction must give, worked out one element at a time in double precision and 64-bit integers,
// with a rounding that shares nothing with the kernels'. And values worth reducing.
#pragma once

#include <floe/floe.h>

#include <cstdint>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace floe {

// Bit patterns of elements, zero-extended. A complex number's lower half is its real part.
__extension__ using Bits = unsigned __int128;

// r = elements[0] op elements[1] op ..., as reduce() promises.
Bits reduce_element(std::span<const Bits> elements, int type, int op, uint32_t divisor,
                    std::span<const double> factors = {});

// The element nearest to `value`, ties to even; of floating-point types.
Bits encode(int type, double value);
double decode(int type, Bits bits);
bool is_nan(int type, Bits bits);
Bits canonical_nan(int type);

// Zeros, infinities, NaNs quiet and signalling, subnormals, the largest, ones; for integers the extremes.
std::vector<Bits> special_values(int type);

// A mixture: special values, any bit pattern, and for floats numbers near 1, whose sums have ties.
Bits random_element(int type, std::mt19937_64& random);

// Elements <-> memory of any alignment.
std::vector<std::byte> to_bytes(int type, std::span<const Bits> elements);
std::vector<Bits> to_elements(int type, std::span<const std::byte> bytes);

struct Reduction {
  int type;
  int op;
};
std::vector<Reduction> all_reductions();
std::string reduction_name(const Reduction& reduction);
inline void PrintTo(const Reduction& reduction, std::ostream* out) { *out << reduction_name(reduction); }

}  // namespace floe
