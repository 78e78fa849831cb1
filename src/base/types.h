// Names and sizes of element types and operations.
#pragma once

#include <floe/floe.h>

#include <cstddef>
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
  switch (type) {
    case FLOE_INT8:
    case FLOE_UINT8:
    case FLOE_BOOL:
    case FLOE_FLOAT8_E4M3:
    case FLOE_FLOAT8_E5M2: return 1;
    case FLOE_FLOAT16:
    case FLOE_BFLOAT16:
    case FLOE_INT16:
    case FLOE_UINT16: return 2;
    case FLOE_FLOAT32:
    case FLOE_INT32:
    case FLOE_UINT32: return 4;
    case FLOE_FLOAT64:
    case FLOE_INT64:
    case FLOE_UINT64:
    case FLOE_COMPLEX64: return 8;
    case FLOE_COMPLEX128: return 16;
    default: return 0;
  }
}

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
