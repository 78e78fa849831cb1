// floe_op_*.
#include "api/api.h"
#include "reduce/reduce.h"

using namespace floe;
using namespace floe::api;

extern "C" {

floe_status_t floe_op_create_premul_sum(floe_comm_t* comm, const void* scalar, floe_type_t type,
                                        floe_op_t* op) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    if (!scalar || !op) return error(FLOE_ERR_ARGUMENT, "{} is NULL", scalar ? "op" : "scalar");
    FLOE_TRY(check_reduction(type, kPremulSum));
    *op = comm->comm->ops().add_premul_sum(type, float_value(type, scalar));
    return {};
  });
}

floe_status_t floe_op_destroy(floe_comm_t* comm, floe_op_t op) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(comm, "comm"));
    return comm->comm->ops().remove(op);
  });
}

}  // extern "C"
