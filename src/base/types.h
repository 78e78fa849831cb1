// Names and sizes of element types and operations.
#pragma once

#include <floe/floe.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace floe {

constexpr int kTypes = FLOE_FLOAT8_E5M2 + 1;
// What the handles of floe_op_create_premul_sum stand for.
constexpr int kPremulSum = FLOE_BXOR + 1;
constexpr int kOps = kPremulSum + 1;

// An operation as this rank called it.
struct Operator {
  Operator(int operation, double premul_factor = 1) : op(operation), factor(premul_factor) {}
  int op;         // a floe_op_t, or kPremulSum
  double factor;  // of kPremulSum: may differ from rank to rank
};

// Bytes of one element; 0 for a value that is no floe_type_t.
constexpr size_t type_size(int type) {
  constexpr std::array<uint8_t, kTypes> sizes = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1, 8, 16, 1, 1};
  return static_cast<unsigned>(type) < kTypes ? sizes[static_cast<size_t>(type)] : 0;
}

// How many elements of a type there are in `bytes`. Sizes are powers of two, and a division is a good part of
// what a small reduction costs.
constexpr uint64_t elements(uint64_t bytes, int type) { return bytes >> std::countr_zero(type_size(type)); }

// Real floating-point types.
constexpr bool is_float(int type) {
  return (type >= FLOE_FLOAT32 && type <= FLOE_BFLOAT16) || type == FLOE_FLOAT8_E4M3 ||
         type == FLOE_FLOAT8_E5M2;
}
constexpr bool is_complex(int type) { return type == FLOE_COMPLEX64 || type == FLOE_COMPLEX128; }
constexpr bool is_bitwise(int op) { return op >= FLOE_BAND && op <= FLOE_BXOR; }

// Whether `op` has a meaning for `type`; both exist.
constexpr bool is_defined(int type, int op) {
  if (is_complex(type)) return op == FLOE_SUM || op == FLOE_AVG || op == FLOE_PRODUCT;
  if (is_float(type)) return !is_bitwise(op);
  return op != FLOE_AVG && op != kPremulSum;
}

// Whether both values exist, and `op` has a meaning for `type`.
constexpr bool is_reduction(int type, int op) {
  constexpr auto defined = [] {  // by type, a bit for each operation
    std::array<uint16_t, kTypes> masks{};
    for (int t = 0; t < kTypes; ++t)
      for (int o = 0; o < kOps; ++o)
        masks[static_cast<size_t>(t)] |= static_cast<uint16_t>(is_defined(t, o) << o);
    return masks;
  }();
  return static_cast<unsigned>(type) < kTypes && static_cast<unsigned>(op) < kOps &&
         (defined[static_cast<size_t>(type)] >> op & 1) != 0;
}

constexpr std::string_view type_name(int type) {
  constexpr std::string_view names[kTypes] = {
      "float32", "float64",   "float16",    "bfloat16",    "int8",       "int16",
      "int32",   "int64",     "uint8",      "uint16",      "uint32",     "uint64",
      "bool",    "complex64", "complex128", "float8_e4m3", "float8_e5m2"};
  return type >= 0 && type < kTypes ? names[type] : "unknown type";
}

constexpr std::string_view op_name(int op) {
  constexpr std::string_view names[kOps] = {"sum",  "avg", "product", "min",       "max",
                                            "band", "bor", "bxor",    "premul-sum"};
  return op >= 0 && op < kOps ? names[op] : "unknown op";
}

}  // namespace floe
