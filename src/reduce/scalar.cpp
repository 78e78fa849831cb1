#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/types.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

// A binary float. IEEE formats keep the largest exponent for infinity and NaN, E4M3 one mantissa of it, for
// NaN.
struct Layout {
  int exponent_bits;
  int mantissa_bits;
  bool infinity = true;
};

Layout layout_of(int type) {
  switch (type) {
    case FLOE_FLOAT16: return {5, 10};
    case FLOE_BFLOAT16: return {8, 7};
    case FLOE_FLOAT8_E5M2: return {5, 2};
    default: return {4, 3, false};
  }
}

}  // namespace

double float_value(int type, const void* element) {
  if (type == FLOE_FLOAT64) {
    double value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  if (type == FLOE_FLOAT32) {
    float value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  const Layout layout = layout_of(type);
  uint32_t bits = 0;
  std::memcpy(&bits, element, type_size(type));  // little-endian, as all that floe runs on
  const int exponent_mask = (1 << layout.exponent_bits) - 1, mantissa_mask = (1 << layout.mantissa_bits) - 1;
  const int exponent = static_cast<int>(bits >> layout.mantissa_bits) & exponent_mask;
  const int mantissa = static_cast<int>(bits) & mantissa_mask;
  const double sign = bits >> (layout.exponent_bits + layout.mantissa_bits) ? -1.0 : 1.0;
  if (exponent == exponent_mask && mantissa != 0 && (layout.infinity || mantissa == mantissa_mask))
    return std::numeric_limits<double>::quiet_NaN();
  if (exponent == exponent_mask && layout.infinity) return sign * std::numeric_limits<double>::infinity();
  const int units = exponent == 0 ? mantissa : mantissa + mantissa_mask + 1;
  const int bias = exponent_mask / 2;
  return sign * std::ldexp(units, std::max(exponent, 1) - bias - layout.mantissa_bits);
}

}  // namespace floe
