#include "oracle.h"

#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <type_traits>

namespace floe::test {
namespace {

// A float of 16 or 8 bits. Without infinity the largest exponent is that of numbers too, but for one NaN.
template <class Bits, int MantissaBits, bool HasInfinity = true>
struct SmallFloat {
  static constexpr int kBits = 8 * sizeof(Bits);
  static constexpr int kMantissaBits = MantissaBits;
  static constexpr int kMantissaMask = (1 << MantissaBits) - 1;
  static constexpr int kExponentMask = (1 << (kBits - 1 - MantissaBits)) - 1;
  static constexpr int kBias = kExponentMask / 2;
  static constexpr bool kHasInfinity = HasInfinity;
  // What numbers beyond the range become: infinity, or the largest.
  static constexpr int kBeyond = (kExponentMask << MantissaBits) + (HasInfinity ? 0 : kMantissaMask - 1);
  Bits bits;
};
using Float16 = SmallFloat<uint16_t, 10>;
using BFloat16 = SmallFloat<uint16_t, 7>;
using Float8E4M3 = SmallFloat<uint8_t, 3, false>;
using Float8E5M2 = SmallFloat<uint8_t, 2>;

template <class T>
constexpr bool is_small = false;
template <class B, int M, bool I>
constexpr bool is_small<SmallFloat<B, M, I>> = true;

struct Bool {
  uint8_t byte;
};

template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;

template <class T>
float load_small(T small) {
  constexpr int M = T::kMantissaBits, B = T::kBias;
  const int exponent = (small.bits >> M) & T::kExponentMask;
  const int mantissa = small.bits & T::kMantissaMask;
  const float sign = small.bits >> (T::kBits - 1) ? -1.0f : 1.0f;
  if (exponent == T::kExponentMask && (T::kHasInfinity || mantissa == T::kMantissaMask))
    return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - B - M);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << M)), exponent - B - M);
}

// Rounds to nearest even by scaling to a whole number: exact in double for all of them.
template <class T>
T store_small(float value) {
  using Bits = decltype(T::bits);
  constexpr int M = T::kMantissaBits, B = T::kBias;
  const int sign = std::signbit(value) ? 1 << (T::kBits - 1) : 0;
  if (std::isnan(value)) return {static_cast<Bits>((1 << (T::kBits - 1)) - 1)};
  const double size = std::fabs(static_cast<double>(value));
  if (std::isinf(value) || size == 0) return {static_cast<Bits>(sign | (size == 0 ? 0 : T::kBeyond))};
  const int exponent = std::max(std::ilogb(size), 1 - B);  // of the unit in the last place, plus M
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(size, M - exponent)));
  // A carry into the next power of two, and the step from subnormal to normal, come out right by addition.
  const int64_t bits = (int64_t{exponent - (1 - B)} << M) + units;
  return {static_cast<Bits>(sign | std::min<int64_t>(bits, T::kBeyond))};
}

template <class T>
auto accumulator(T value) {
  if constexpr (is_small<T>)
    return load_small(value);
  else if constexpr (std::is_same_v<T, Bool>)
    return value.byte != 0;
  else
    return value;
}
template <class T>
using Accumulator = decltype(accumulator(T{}));

template <class T>
T finish(Accumulator<T> value) {
  if constexpr (is_small<T>)
    return store_small<T>(value);
  else if constexpr (std::is_same_v<T, Bool>)
    return Bool{value};
  else
    return value;
}

template <class A>
A combine(floe_op_t op, A a, A b) {
  if constexpr (is_complex<A>) {
    if (op != FLOE_PRODUCT) return a + b;
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else if constexpr (std::is_floating_point_v<A>) {
    if (op == FLOE_SUM || op == FLOE_AVG || op == kPremulSum) return a + b;
    if (op == FLOE_PRODUCT) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
    return op == FLOE_MIN ? std::min(a, b) : std::max(a, b);
  } else {
    // Integers wrap: in uint64_t, so that nothing overflows on the way. bool is 0 or 1, and so saturates.
    const auto wide_a = static_cast<uint64_t>(a), wide_b = static_cast<uint64_t>(b);
    switch (op) {
      case FLOE_SUM: return static_cast<A>(wide_a + wide_b);
      case FLOE_PRODUCT: return static_cast<A>(wide_a * wide_b);
      case FLOE_BAND: return static_cast<A>(wide_a & wide_b);
      case FLOE_BOR: return static_cast<A>(wide_a | wide_b);
      case FLOE_BXOR: return static_cast<A>(wide_a ^ wide_b);
      case FLOE_MIN: return std::min(a, b);
      default: return std::max(a, b);
    }
  }
}

// Calls f with a value of the element's type.
template <class F>
auto with_type(floe_type_t type, F&& f) {
  switch (type) {
    case FLOE_FLOAT32: return f(float{});
    case FLOE_FLOAT64: return f(double{});
    case FLOE_FLOAT16: return f(Float16{});
    case FLOE_BFLOAT16: return f(BFloat16{});
    case FLOE_INT8: return f(int8_t{});
    case FLOE_INT16: return f(int16_t{});
    case FLOE_INT32: return f(int32_t{});
    case FLOE_INT64: return f(int64_t{});
    case FLOE_UINT8: return f(uint8_t{});
    case FLOE_UINT16: return f(uint16_t{});
    case FLOE_UINT32: return f(uint32_t{});
    case FLOE_BOOL: return f(Bool{});
    case FLOE_COMPLEX64: return f(std::complex<float>{});
    case FLOE_COMPLEX128: return f(std::complex<double>{});
    case FLOE_FLOAT8_E4M3: return f(Float8E4M3{});
    case FLOE_FLOAT8_E5M2: return f(Float8E5M2{});
    default: return f(uint64_t{});
  }
}

template <class T>
T at(std::span<const std::byte> data, size_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

using Random = std::mt19937_64;

// Sixteenths of whole numbers, or factors that are powers of two.
template <class T>
T exact_float(Random& random, floe_op_t op) {
  if (op == FLOE_PRODUCT) {
    constexpr std::array<T, 6> factors = {1, -1, 2, -2, T(0.5), T(-0.5)};
    return factors[random() % factors.size()];
  }
  return static_cast<T>(static_cast<int>(random() % 8193) - 4096) / 16;
}

template <class T>
T random_float(Random& random, floe_op_t op) {
  if ((op == FLOE_MIN || op == FLOE_MAX) && random() % 64 == 0) return std::numeric_limits<T>::quiet_NaN();
  return static_cast<T>(std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -60));
}

template <class T>
T random_small(Random& random) {
  using Bits = decltype(T::bits);
  const auto any = static_cast<Bits>(random());
  constexpr auto sign_and_mantissa = static_cast<Bits>(1 << (T::kBits - 1) | T::kMantissaMask);
  switch (random() % 8) {
    case 0: return {any};                                                   // infinities and NaN among them
    case 1: return {static_cast<Bits>(any & sign_and_mantissa)};            // zeros and subnormals
    default: return store_small<T>(random_float<float>(random, FLOE_SUM));  // -8 to 8
  }
}

template <class T>
T random_element(Random& random, floe_op_t op, Values values) {
  if constexpr (is_small<T>) {
    return random_small<T>(random);
  } else if constexpr (is_complex<T>) {
    const auto real = random_element<typename T::value_type>(random, op, values);
    return {real, random_element<typename T::value_type>(random, op, values)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(random() % 2 ? random() : 0)};
  } else if constexpr (!std::is_floating_point_v<T>) {
    return static_cast<T>(random());
  } else if (values == Values::kRandom || op == FLOE_MIN || op == FLOE_MAX) {
    return random_float<T>(random, op);
  } else {
    return exact_float<T>(random, op);
  }
}

template <class A>
bool same_value(A a, A b) {
  if constexpr (is_complex<A>) {
    return same_value(a.real(), b.real()) && same_value(a.imag(), b.imag());
  } else if constexpr (std::is_floating_point_v<A>) {
    return a == b || (std::isnan(a) && std::isnan(b));
  } else {
    return a == b;
  }
}

template <class T>
bool same(T got, T want) {
  return same_value(accumulator(got), accumulator(want));
}

template <class T>
std::string text(T value) {
  const auto number = accumulator(value);
  if constexpr (is_complex<T>)
    return std::to_string(number.real()) + " + " + std::to_string(number.imag()) + "i";
  else
    return std::to_string(number);
}

}  // namespace

size_t element_size(floe_type_t type) {
  return with_type(type, [](auto element) { return sizeof(element); });
}

const char* type_text(floe_type_t type) {
  constexpr const char* names[] = {"float32",     "float64",    "float16", "bfloat16",  "int8",
                                   "int16",       "int32",      "int64",   "uint8",     "uint16",
                                   "uint32",      "uint64",     "bool",    "complex64", "complex128",
                                   "float8_e4m3", "float8_e5m2"};
  return names[type];
}

const char* op_text(floe_op_t op) {
  constexpr const char* names[] = {"sum",  "avg", "product", "min",       "max",
                                   "band", "bor", "bxor",    "premul-sum"};
  return names[op];
}

bool supported(floe_type_t type, floe_op_t op) {
  if (type == FLOE_COMPLEX64 || type == FLOE_COMPLEX128)
    return op == FLOE_SUM || op == FLOE_AVG || op == FLOE_PRODUCT;
  const bool floating = type <= FLOE_BFLOAT16 || type == FLOE_FLOAT8_E4M3 || type == FLOE_FLOAT8_E5M2;
  if (op == FLOE_AVG || op == kPremulSum) return floating;
  return !floating || op <= FLOE_MAX;
}

const std::vector<floe_type_t>& all_types() {
  static const std::vector<floe_type_t> types = {
      FLOE_FLOAT32, FLOE_FLOAT64,   FLOE_FLOAT16,    FLOE_BFLOAT16,    FLOE_INT8,       FLOE_INT16,
      FLOE_INT32,   FLOE_INT64,     FLOE_UINT8,      FLOE_UINT16,      FLOE_UINT32,     FLOE_UINT64,
      FLOE_BOOL,    FLOE_COMPLEX64, FLOE_COMPLEX128, FLOE_FLOAT8_E4M3, FLOE_FLOAT8_E5M2};
  return types;
}

const std::vector<floe_op_t>& all_ops() {
  static const std::vector<floe_op_t> ops = {FLOE_SUM,  FLOE_AVG, FLOE_PRODUCT, FLOE_MIN,  FLOE_MAX,
                                             FLOE_BAND, FLOE_BOR, FLOE_BXOR,    kPremulSum};
  return ops;
}

float premul_factor(uint32_t rank) {
  constexpr float factors[] = {1.5f, -0.5f, 3, 1, -0.25f, 1.25f, 2, -1};
  return factors[rank % std::size(factors)];
}

Bytes input(floe_type_t type, floe_op_t op, uint64_t count, uint32_t rank, uint64_t seed, Values values) {
  Random random(seed * 1000 + rank);
  return with_type(type, [&](auto element) {
    using T = decltype(element);
    Bytes data(count * sizeof(T));
    for (uint64_t i = 0; i < count; ++i) {
      const T value = random_element<T>(random, op, values);
      std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
    }
    return data;
  });
}

Bytes reduce_inputs(floe_type_t type, floe_op_t op, const std::vector<Bytes>& inputs) {
  return with_type(type, [&](auto element) {
    using T = decltype(element);
    Bytes result(inputs[0].size());
    for (size_t i = 0; i < result.size() / sizeof(T); ++i) {
      const auto term = [&](size_t rank) {
        auto value = accumulator(at<T>(inputs[rank], i));
        if constexpr (std::is_floating_point_v<decltype(value)>)
          if (op == kPremulSum) value *= premul_factor(static_cast<uint32_t>(rank));
        return value;
      };
      auto value = term(0);
      for (size_t rank = 1; rank < inputs.size(); ++rank) value = combine(op, value, term(rank));
      if constexpr (std::is_floating_point_v<decltype(value)>)
        if (op == FLOE_AVG) value /= static_cast<decltype(value)>(inputs.size());
      if constexpr (is_complex<T>)
        if (op == FLOE_AVG) value /= static_cast<typename T::value_type>(inputs.size());
      const T final_value = finish<T>(value);
      std::memcpy(result.data() + i * sizeof(T), &final_value, sizeof(T));
    }
    return result;
  });
}

testing::AssertionResult same_elements(floe_type_t type, std::span<const std::byte> got,
                                       std::span<const std::byte> want) {
  if (got.size() != want.size())
    return testing::AssertionFailure() << got.size() << " bytes instead of " << want.size();
  return with_type(type, [&](auto element) {
    using T = decltype(element);
    for (size_t i = 0; i < want.size() / sizeof(T); ++i)
      if (!same(at<T>(got, i), at<T>(want, i)))
        return testing::AssertionFailure()
               << type_text(type) << " element " << i << " of " << want.size() / sizeof(T) << " is "
               << text(at<T>(got, i)) << " instead of " << text(at<T>(want, i));
    return testing::AssertionSuccess();
  });
}

float to_float(floe_type_t type, const std::byte* element) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto value = accumulator(at<T>({element, sizeof(T)}, 0));
    if constexpr (is_complex<T>)
      return static_cast<float>(value.real());
    else
      return static_cast<float>(value);
  });
}

Bytes from_float(floe_type_t type, std::span<const float> values) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    Bytes data(values.size() * sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = finish<T>(static_cast<Accumulator<T>>(values[i]));
      std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
    }
    return data;
  });
}

}  // namespace floe::test
