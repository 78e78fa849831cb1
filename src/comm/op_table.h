// The operations that callers made for one communicator.
#pragma once

#include <map>
#include <mutex>

#include "base/status.h"
#include "base/types.h"
#include "reduce/reduce.h"

namespace floe {

// Threads: any.
class OpTable {
 public:
  // A handle for the sum of factor * element, of elements of `type`.
  floe_op_t add_premul_sum(floe_type_t type, double factor);
  // FLOE_ERR_ARGUMENT if there is no such handle.
  Status remove(floe_op_t op);
  // What `op`, a predefined operation or a handle, does with elements of `type`; or why it can't.
  Result<Operator> find(floe_op_t op, floe_type_t type) const {
    const int value = static_cast<int>(op);
    if (value >= kPremulSum) return find_handle(value, type);
    FLOE_TRY(check_reduction(type, value));
    return Operator(value);
  }

 private:
  Result<Operator> find_handle(int value, floe_type_t type) const;

  // Predefined operations end well below.
  static constexpr int kFirstHandle = 256;

  struct PremulSum {
    floe_type_t type;
    double factor;
  };

  mutable std::mutex mutex_;
  std::map<int, PremulSum> handles_;
  int next_ = kFirstHandle;
};

}  // namespace floe
