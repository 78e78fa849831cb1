#include "comm/op_table.h"

namespace floe {

floe_op_t OpTable::add_premul_sum(floe_type_t type, double factor) {
  const std::lock_guard guard(mutex_);
  // In turn, so that a handle that was destroyed is soon not taken for a new one.
  int handle = 0;
  do {
    handle = next_;
    next_ = handle == FLOE_OP_LIMIT ? kFirstHandle : handle + 1;
  } while (!handles_.try_emplace(handle, PremulSum{type, factor}).second);
  return static_cast<floe_op_t>(handle);
}

Status OpTable::remove(floe_op_t op) {
  const std::lock_guard guard(mutex_);
  if (handles_.erase(static_cast<int>(op)) == 0)
    return error(FLOE_ERR_ARGUMENT,
                 "op is {}: not a handle that this communicator has made and not destroyed",
                 static_cast<int>(op));
  return {};
}

Result<Operator> OpTable::find_handle(int value, floe_type_t type) const {
  if (value == kPremulSum)
    return error(FLOE_ERR_ARGUMENT, "{} is not a floe_op_t: premul-sum is made by floe_op_create_premul_sum",
                 value);
  if (value < kFirstHandle) return bad_reduction(type, value);
  FLOE_TRY(check_reduction(type, kPremulSum));
  const std::lock_guard guard(mutex_);
  const auto found = handles_.find(value);
  if (found == handles_.end())
    return error(FLOE_ERR_ARGUMENT,
                 "op is {}: not a handle that this communicator has made and not destroyed", value);
  if (found->second.type != type)
    return error(FLOE_ERR_ARGUMENT, "op was made for {}, and type is {}", type_name(found->second.type),
                 type_name(type));
  return Operator(kPremulSum, found->second.factor);
}

}  // namespace floe
