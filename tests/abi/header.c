/* Compiled as every supported version of C and C++: the header alone must do, without a warning, and what
 * a program has compiled into itself (values, sizes, offsets) must never change. */
#include <floe/floe.h>
#include <floe/floe.h> /* again: the guard works */

#if defined(__cplusplus)
#define FROZEN(condition) static_assert(condition, #condition)
#elif __STDC_VERSION__ >= 201112L
#define FROZEN(condition) _Static_assert(condition, #condition)
#else
#define FROZEN(condition) extern int frozen[(condition) ? 1 : -1]
#endif

FROZEN(sizeof(floe_status_t) == 4 && sizeof(floe_type_t) == 4 && sizeof(floe_op_t) == 4);
FROZEN(FLOE_OK == 0 && FLOE_IN_PROGRESS == 1 && FLOE_ERR_ARGUMENT == 2 && FLOE_ERR_UNSUPPORTED == 3);
FROZEN(FLOE_ERR_ENVIRONMENT == 4 && FLOE_ERR_TIMEOUT == 5 && FLOE_ERR_PEER == 6 && FLOE_ERR_MISMATCH == 7);
FROZEN(FLOE_ERR_ABORTED == 8 && FLOE_ERR_TRUNCATED == 9 && FLOE_ERR_FORKED == 10 && FLOE_ERR_SYSTEM == 11);
FROZEN(FLOE_ERR_TRANSPORT == 12 && FLOE_ERR_STORE == 13 && FLOE_ERR_INTERNAL == 14);
FROZEN(FLOE_FLOAT32 == 0 && FLOE_FLOAT64 == 1 && FLOE_FLOAT16 == 2 && FLOE_BFLOAT16 == 3);
FROZEN(FLOE_INT8 == 4 && FLOE_INT16 == 5 && FLOE_INT32 == 6 && FLOE_INT64 == 7);
FROZEN(FLOE_UINT8 == 8 && FLOE_UINT16 == 9 && FLOE_UINT32 == 10 && FLOE_UINT64 == 11);
FROZEN(FLOE_BOOL == 12 && FLOE_COMPLEX64 == 13 && FLOE_COMPLEX128 == 14);
FROZEN(FLOE_FLOAT8_E4M3 == 15 && FLOE_FLOAT8_E5M2 == 16 && FLOE_TYPE_LIMIT == 0x7fffffff);
FROZEN(FLOE_SUM == 0 && FLOE_AVG == 1 && FLOE_PRODUCT == 2 && FLOE_MIN == 3 && FLOE_MAX == 4);
FROZEN(FLOE_BAND == 5 && FLOE_BOR == 6 && FLOE_BXOR == 7 && FLOE_OP_LIMIT == 0x7fffffff);

#if UINTPTR_MAX == UINT64_MAX
/* A struct may grow at its end: offsets are frozen, and sizes only as a lower bound. */
FROZEN(sizeof(floe_context_config_t) >= 8 && offsetof(floe_context_config_t, workers) == 4);
FROZEN(sizeof(floe_store_t) >= 40 && offsetof(floe_store_t, user) == 8 && offsetof(floe_store_t, set) == 16);
FROZEN(offsetof(floe_store_t, get) == 24 && offsetof(floe_store_t, remove) == 32);
FROZEN(sizeof(floe_comm_config_t) >= 32 && offsetof(floe_comm_config_t, rank) == 4);
FROZEN(offsetof(floe_comm_config_t, size) == 8 && offsetof(floe_comm_config_t, name) == 16);
FROZEN(offsetof(floe_comm_config_t, timeout_ms) == 24);
FROZEN(sizeof(floe_comm_info_t) >= 32 && offsetof(floe_comm_info_t, rank) == 4);
FROZEN(offsetof(floe_comm_info_t, size) == 8 && offsetof(floe_comm_info_t, local_rank) == 12);
FROZEN(offsetof(floe_comm_info_t, local_size) == 16 && offsetof(floe_comm_info_t, direct) == 20);
FROZEN(offsetof(floe_comm_info_t, timeout_ms) == 24);
FROZEN(sizeof(floe_request_info_t) >= 16 && offsetof(floe_request_info_t, source) == 4);
FROZEN(offsetof(floe_request_info_t, bytes) == 8);
#endif

/* The macros expand to valid code too. */
uint64_t use_every_macro(void);
uint64_t use_every_macro(void) {
  const floe_context_config_t context = FLOE_CONTEXT_CONFIG_INIT;
  const floe_store_t store = FLOE_STORE_INIT;
  const floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  const floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  const floe_request_info_t request = FLOE_REQUEST_INFO_INIT;
  const void *in_place = FLOE_IN_PLACE;
  return context.struct_size + store.struct_size + config.struct_size + info.struct_size +
         request.struct_size + FLOE_ANY_SOURCE + FLOE_NO_TIMEOUT + (in_place != NULL) +
         FLOE_VERSION_MAJOR * 10000 + FLOE_VERSION_MINOR * 100 + FLOE_VERSION_PATCH;
}
