#include "oracle.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

namespace floe::test {
namespace {

// A 16-bit float format.
template <int MantissaBits, int Bias>
struct Half {
  static constexpr int kMantissaBits = MantissaBits;
  static constexpr int kBias = Bias;
  uint16_t bits;
};
using Float16 = Half<10, 15>;
using BFloat16 = Half<7, 127>;

template <class H>
constexpr bool is_half = false;
template <int M, int B>
constexpr bool is_half<Half<M, B>> = true;

template <int M, int B>
float load(Half<M, B> half) {
  const int exponent_bits = 15 - M;
  const int exponent = (half.bits >> M) & ((1 << exponent_bits) - 1);
  const int mantissa = half.bits & ((1 << M) - 1);
  const float sign = half.bits >> 15 ? -1.0f : 1.0f;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - B - M);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << M)), exponent - B - M);
}

// Rounds to nearest even by scaling to a whole number: exact in double for both formats.
template <class H>
H store_half(float value) {
  constexpr int M = H::kMantissaBits, B = H::kBias;
  constexpr int infinity = ((1 << (15 - M)) - 1) << M;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return {static_cast<uint16_t>(infinity | 1 << (M - 1))};
  const double size = std::fabs(static_cast<double>(value));
  if (std::isinf(value) || size == 0) return {static_cast<uint16_t>(sign | (size == 0 ? 0 : infinity))};
  const int exponent = std::max(std::ilogb(size), 1 - B);  // of the unit in the last place, plus M
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(size, M - exponent)));
  // A carry into the next power of two, and the step from subnormal to normal, come out right by addition.
  const int64_t bits = (int64_t{exponent - (1 - B)} << M) + units;
  return {static_cast<uint16_t>(sign | std::min<int64_t>(bits, infinity))};
}

template <class T>
auto accumulator(T value) {
  if constexpr (is_half<T>)
    return load(value);
  else
    return value;
}
template <class T>
using Accumulator = decltype(accumulator(T{}));

template <class T>
T finish(Accumulator<T> value) {
  if constexpr (is_half<T>)
    return store_half<T>(value);
  else
    return value;
}

template <class A>
A combine(floe_op_t op, A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (op == FLOE_SUM || op == FLOE_AVG) return a + b;
    if (op == FLOE_PRODUCT) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
  } else {
    // Integers wrap: in uint64_t, so that nothing overflows on the way.
    if (op == FLOE_SUM) return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    if (op == FLOE_PRODUCT) return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  return op == FLOE_MIN ? std::min(a, b) : std::max(a, b);
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
T random_half(Random& random) {
  const auto any = static_cast<uint16_t>(random());
  constexpr auto sign_and_mantissa = static_cast<uint16_t>(0x8000 | ((1 << T::kMantissaBits) - 1));
  switch (random() % 8) {
    case 0: return {any};                                                  // infinities and NaN among them
    case 1: return {static_cast<uint16_t>(any & sign_and_mantissa)};       // zeros and subnormals
    default: return store_half<T>(random_float<float>(random, FLOE_SUM));  // -8 to 8
  }
}

template <class T>
T random_element(Random& random, floe_op_t op, Values values) {
  if constexpr (is_half<T>)
    return random_half<T>(random);
  else if constexpr (!std::is_floating_point_v<T>)
    return static_cast<T>(random());
  else if (values == Values::kRandom || op == FLOE_MIN || op == FLOE_MAX)
    return random_float<T>(random, op);
  else
    return exact_float<T>(random, op);
}

template <class T>
bool same(T got, T want) {
  const auto a = accumulator(got), b = accumulator(want);
  if constexpr (std::is_floating_point_v<decltype(a)>)
    if (std::isnan(a) && std::isnan(b)) return true;
  return a == b;
}

template <class T>
std::string text(T value) {
  const auto number = accumulator(value);
  return std::to_string(number);
}

}  // namespace

size_t element_size(floe_type_t type) {
  return with_type(type, [](auto element) { return sizeof(element); });
}

const char* type_text(floe_type_t type) {
  constexpr const char* names[] = {"float32", "float64", "float16", "bfloat16", "int8",   "int16",
                                   "int32",   "int64",   "uint8",   "uint16",   "uint32", "uint64"};
  return names[type];
}

const char* op_text(floe_op_t op) {
  constexpr const char* names[] = {"sum", "avg", "product", "min", "max"};
  return names[op];
}

bool supported(floe_type_t type, floe_op_t op) { return op != FLOE_AVG || type <= FLOE_BFLOAT16; }

const std::vector<floe_type_t>& all_types() {
  static const std::vector<floe_type_t> types = {FLOE_FLOAT32, FLOE_FLOAT64, FLOE_FLOAT16, FLOE_BFLOAT16,
                                                 FLOE_INT8,    FLOE_INT16,   FLOE_INT32,   FLOE_INT64,
                                                 FLOE_UINT8,   FLOE_UINT16,  FLOE_UINT32,  FLOE_UINT64};
  return types;
}

const std::vector<floe_op_t>& all_ops() {
  static const std::vector<floe_op_t> ops = {FLOE_SUM, FLOE_AVG, FLOE_PRODUCT, FLOE_MIN, FLOE_MAX};
  return ops;
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
      auto value = accumulator(at<T>(inputs[0], i));
      for (size_t rank = 1; rank < inputs.size(); ++rank)
        value = combine(op, value, accumulator(at<T>(inputs[rank], i)));
      if constexpr (std::is_floating_point_v<decltype(value)>)
        if (op == FLOE_AVG) value /= static_cast<decltype(value)>(inputs.size());
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
    return static_cast<float>(accumulator(at<T>({element, sizeof(T)}, 0)));
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
