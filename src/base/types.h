// Names and sizes of element types and operations.
#pragma once

#include <floe/floe.h>

#include <cstddef>
#include <iterator>
#include <string_view>

namespace floe {

// Bytes of one element; 0 for a value that is no floe_type_t.
constexpr size_t type_size(int type) {
  switch (type) {
    case FLOE_INT8:
    case FLOE_UINT8: return 1;
    case FLOE_FLOAT16:
    case FLOE_BFLOAT16:
    case FLOE_INT16:
    case FLOE_UINT16: return 2;
    case FLOE_FLOAT32:
    case FLOE_INT32:
    case FLOE_UINT32: return 4;
    case FLOE_FLOAT64:
    case FLOE_INT64:
    case FLOE_UINT64: return 8;
    default: return 0;
  }
}

constexpr bool is_float(int type) { return type >= FLOE_FLOAT32 && type <= FLOE_BFLOAT16; }

constexpr std::string_view type_name(int type) {
  constexpr std::string_view names[] = {"float32", "float64", "float16", "bfloat16", "int8",   "int16",
                                        "int32",   "int64",   "uint8",   "uint16",   "uint32", "uint64"};
  return type >= 0 && type < static_cast<int>(std::size(names)) ? names[type] : "unknown type";
}

constexpr std::string_view op_name(int op) {
  constexpr std::string_view names[] = {"sum", "avg", "product", "min", "max"};
  return op >= 0 && op < static_cast<int>(std::size(names)) ? names[op] : "unknown op";
}

}  // namespace floe
