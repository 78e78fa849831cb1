#include "oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace floe {
namespace {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  Bits largest;  // magnitude that a number beyond the range becomes
  Bits quiet_nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int smallest_exponent() const { return 1 - bias(); }
  Bits sign() const { return Bits{1} << (exponent_bits + mantissa_bits); }
  Bits first_nan() const { return largest + 1; }
};

FloatFormat format_of(int type) {
  switch (type) {
    case FLOE_FLOAT32: return {8, 23, 0x7F800000, 0x7FC00000};
    case FLOE_FLOAT16: return {5, 10, 0x7C00, 0x7E00};
    case FLOE_BFLOAT16: return {8, 7, 0x7F80, 0x7FC0};
    case FLOE_FLOAT8_E4M3: return {4, 3, 0x7E, 0x7F};  // no infinity: 448
    case FLOE_FLOAT8_E5M2: return {5, 2, 0x7C, 0x7F};
    default: return {11, 52, 0x7FF0000000000000, 0x7FF8000000000000};
  }
}

// Of a complex number's parts.
int part_type(int type) { return type == FLOE_COMPLEX64 ? FLOE_FLOAT32 : FLOE_FLOAT64; }

bool is_signed(int type) { return type >= FLOE_INT8 && type <= FLOE_INT64; }
int bits_of(int type) { return static_cast<int>(8 * type_size(type)); }
Bits truncate(int type, Bits bits) {
  return bits_of(type) == 128 ? bits : bits & ((Bits{1} << bits_of(type)) - 1);
}

int64_t sign_extend(int type, Bits bits) {
  const int unused = 64 - bits_of(type);
  return static_cast<int64_t>(static_cast<uint64_t>(bits) << unused) >> unused;
}

double smaller(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

// A double holds the exact product of two float32, and rounding its sum or quotient a second time, to
// float32, gives what rounding once would (53 >= 2 * 24 + 2 bits).
double combine(int op, double a, double b) {
  switch (op) {
    case FLOE_PRODUCT: return a * b;
    case FLOE_MIN: return smaller(a, b);
    case FLOE_MAX: return -smaller(-a, -b);
    default: return a + b;
  }
}

int accumulator_of(int type) { return type == FLOE_FLOAT64 ? FLOE_FLOAT64 : FLOE_FLOAT32; }
double round_to(int type, double value) { return decode(type, encode(type, value)); }

Bits reduce_floats(std::span<const Bits> elements, int type, int op, uint32_t divisor,
                   std::span<const double> factors) {
  const int accumulator = accumulator_of(type);
  const auto element = [&](size_t i) {
    const double value = decode(type, elements[i]);
    return op == kPremulSum ? round_to(accumulator, factors[i] * value) : value;
  };
  double sum = element(0);
  for (size_t i = 1; i < elements.size(); ++i) sum = round_to(accumulator, combine(op, sum, element(i)));
  if (op == FLOE_AVG) sum = round_to(accumulator, sum / round_to(accumulator, divisor));
  return encode(type, sum);
}

Bits reduce_complex(std::span<const Bits> elements, int type, int op, uint32_t divisor) {
  const int part = part_type(type), half = bits_of(part);
  std::vector<Bits> real, imaginary;
  for (const Bits element : elements) {
    real.push_back(truncate(part, element));
    imaginary.push_back(element >> half);
  }
  if (op != FLOE_PRODUCT)
    return reduce_floats(real, part, op, divisor, {}) | reduce_floats(imaginary, part, op, divisor, {})
                                                            << half;
  double a = decode(part, real[0]), b = decode(part, imaginary[0]);
  for (size_t i = 1; i < elements.size(); ++i) {
    const double c = decode(part, real[i]), d = decode(part, imaginary[i]);
    const double ac = round_to(part, a * c), bd = round_to(part, b * d);
    const double ad = round_to(part, a * d), bc = round_to(part, b * c);
    a = round_to(part, ac - bd);
    b = round_to(part, ad + bc);
  }
  return encode(part, a) | encode(part, b) << half;
}

Bits reduce_bools(std::span<const Bits> elements, int op) {
  bool result = elements[0] != 0;
  for (const Bits element : elements.subspan(1)) {
    const bool next = element != 0;
    switch (op) {
      case FLOE_SUM:
      case FLOE_MAX:
      case FLOE_BOR: result = result || next; break;
      case FLOE_BXOR: result = result != next; break;
      default: result = result && next; break;
    }
  }
  return result ? 1 : 0;
}

Bits reduce_integers(std::span<const Bits> elements, int type, int op) {
  Bits result = elements[0];
  for (const Bits next : elements.subspan(1)) {
    const bool less = is_signed(type) ? sign_extend(type, next) < sign_extend(type, result) : next < result;
    switch (op) {
      case FLOE_SUM: result = truncate(type, result + next); break;
      case FLOE_PRODUCT: result = truncate(type, result * next); break;
      case FLOE_MIN: result = less ? next : result; break;
      case FLOE_BAND: result &= next; break;
      case FLOE_BOR: result |= next; break;
      case FLOE_BXOR: result ^= next; break;
      default: result = less ? result : next; break;
    }
  }
  return result;
}

}  // namespace

Bits reduce_element(std::span<const Bits> elements, int type, int op, uint32_t divisor,
                    std::span<const double> factors) {
  if (elements.size() == 1 && op != FLOE_AVG && op != kPremulSum) return elements[0];
  if (is_complex(type)) return reduce_complex(elements, type, op, divisor);
  if (type == FLOE_BOOL) return reduce_bools(elements, op);
  return is_float(type) ? reduce_floats(elements, type, op, divisor, factors)
                        : reduce_integers(elements, type, op);
}

Bits encode(int type, double value) {
  const FloatFormat format = format_of(type);
  if (std::isnan(value)) return format.quiet_nan;
  const Bits sign = std::signbit(value) ? format.sign() : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.largest;
  if (magnitude == 0) return sign;

  // In units of the last place; nearbyint() rounds ties to even.
  const int exponent = std::max(std::ilogb(magnitude), format.smallest_exponent());
  const auto units =
      static_cast<Bits>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  if (units < Bits{1} << format.mantissa_bits) return sign | units;  // subnormal
  const Bits biased = static_cast<Bits>(exponent - format.smallest_exponent()) << format.mantissa_bits;
  return sign | std::min(biased + units, format.largest);
}

double decode(int type, Bits bits) {
  const FloatFormat format = format_of(type);
  const Bits magnitude = bits & ~format.sign();
  const double sign = bits & format.sign() ? -1.0 : 1.0;
  if (magnitude >= format.first_nan()) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.largest && type != FLOE_FLOAT8_E4M3)
    return sign * std::numeric_limits<double>::infinity();
  const int biased = static_cast<int>(magnitude >> format.mantissa_bits);
  const Bits fraction = magnitude & ((Bits{1} << format.mantissa_bits) - 1);
  const Bits units = biased == 0 ? fraction : fraction | Bits{1} << format.mantissa_bits;
  const int exponent = std::max(biased, 1) - format.bias() - format.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(units), exponent);
}

bool is_nan(int type, Bits bits) { return is_float(type) && std::isnan(decode(type, bits)); }
Bits canonical_nan(int type) { return format_of(type).quiet_nan; }

std::vector<Bits> special_values(int type) {
  if (is_complex(type)) {  // every part with the one after it
    const auto parts = special_values(part_type(type));
    std::vector<Bits> values;
    for (size_t i = 0; i < parts.size(); ++i)
      values.push_back(parts[i] | parts[(i + 1) % parts.size()] << bits_of(part_type(type)));
    return values;
  }
  if (!is_float(type)) {
    const Bits top = Bits{1} << (bits_of(type) - 1);
    return {0, 1, 2, 3, top - 1, top, top + 1, truncate(type, ~Bits{0}), truncate(type, ~Bits{1})};
  }
  const FloatFormat format = format_of(type);
  const Bits largest = format.largest;
  const Bits normal = Bits{1} << format.mantissa_bits;  // the smallest
  std::vector<Bits> values = {0, 1, 2, normal - 1, normal, normal + 1, largest - 1, largest};
  for (const Bits nan : {format.first_nan(), format.quiet_nan - 1, format.quiet_nan, format.sign() - 1})
    if (is_nan(type, nan)) values.push_back(nan);
  for (const double number : {1.0, 1.5, 3.0, 256.0, 0.0078125}) values.push_back(encode(type, number));
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(values[i] | format.sign());
  return values;
}

Bits random_element(int type, std::mt19937_64& random) {
  if (is_complex(type)) {
    const Bits real = random_element(part_type(type), random);
    return real | random_element(part_type(type), random) << bits_of(part_type(type));
  }
  const uint64_t bits = random();
  const auto choice = random() % 8;
  if (choice < 2) {
    const auto values = special_values(type);
    return values[bits % values.size()];
  }
  if (choice < 4 || !is_float(type)) return truncate(type, bits);
  const double near_one = std::ldexp(static_cast<double>(bits >> 44), -20) + 0.5;
  return encode(type, (bits & 1 ? -1 : 1) * std::ldexp(near_one, static_cast<int>(bits % 12) - 6));
}

std::vector<std::byte> to_bytes(int type, std::span<const Bits> elements) {
  static_assert(std::endian::native == std::endian::little);
  const size_t size = type_size(type);
  std::vector<std::byte> bytes(elements.size() * size);
  for (size_t i = 0; i < elements.size(); ++i) std::memcpy(bytes.data() + i * size, &elements[i], size);
  return bytes;
}

std::vector<Bits> to_elements(int type, std::span<const std::byte> bytes) {
  const size_t size = type_size(type);
  std::vector<Bits> elements(bytes.size() / size);
  for (size_t i = 0; i < elements.size(); ++i) std::memcpy(&elements[i], bytes.data() + i * size, size);
  return elements;
}

std::vector<Reduction> all_reductions() {
  std::vector<Reduction> all;
  for (int type = 0; type < kTypes; ++type)
    for (int op = 0; op < kOps; ++op)
      if (is_defined(type, op)) all.push_back({type, op});
  return all;
}

std::string reduction_name(const Reduction& reduction) {
  std::string op(op_name(reduction.op));
  std::replace(op.begin(), op.end(), '-', '_');  // gtest's names
  return std::string(type_name(reduction.type)) + "_" + op;
}

}  // namespace floe
