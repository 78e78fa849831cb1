// What a collective must give, computed the slow and obvious way: element by element, in rank order, with
// its own conversions of 16- and 8-bit floats, which share nothing with the kernels under test.
#pragma once

#include <floe/floe.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace floe::test {

using Bytes = std::vector<std::byte>;

// Stands for a handle of floe_op_create_premul_sum, made of premul_factor().
constexpr auto kPremulSum = static_cast<floe_op_t>(8);
// `rank`'s factor, a value of every floating-point type.
float premul_factor(uint32_t rank);

size_t element_size(floe_type_t type);
const char* type_text(floe_type_t type);
const char* op_text(floe_op_t op);
bool supported(floe_type_t type, floe_op_t op);

const std::vector<floe_type_t>& all_types();
const std::vector<floe_op_t>& all_ops();

// What the values of an input are like.
enum class Values {
  kExact,   // sums and products are exact in float32 and float64, in any order; everything else is random
  kRandom,  // also in float32 and float64
};

// A rank's input: the same for the same arguments, everywhere. 16- and 8-bit floats have ordinary values,
// subnormals, infinities and NaN; integers overflow.
Bytes input(floe_type_t type, floe_op_t op, uint64_t count, uint32_t rank, uint64_t seed,
            Values values = Values::kExact);

// inputs[0] op inputs[1] op ..., 16- and 8-bit floats in float32 with one rounding to nearest even at the
// end.
Bytes reduce_inputs(floe_type_t type, floe_op_t op, const std::vector<Bytes>& inputs);

// Bits are equal, or both elements are NaN, or both are zero.
testing::AssertionResult same_elements(floe_type_t type, std::span<const std::byte> got,
                                       std::span<const std::byte> want);

// Single values, for tests that name them.
float to_float(floe_type_t type, const std::byte* element);
Bytes from_float(floe_type_t type, std::span<const float> values);

}  // namespace floe::test
