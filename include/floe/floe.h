/* floe: collective communication for CPUs. The public C API (C99), and the whole of it.
 *
 * Objects
 *   floe_context_t  one per rank (usually one per process): owns the progress engine and its threads
 *   floe_comm_t     a communicator: `size` ranks that communicate, this one being `rank`
 *   floe_request_t  an operation under way
 *
 * Rules that hold for every function
 *   - Every call returns a floe_status_t. After anything but FLOE_OK, floe_last_error() says in words
 *     who, what, where and how long, for this thread's last failed call.
 *   - Counts are elements, sizes are bytes, times are milliseconds, ranks start at 0.
 *   - Structs start with `struct_size`; initialise them with their _INIT macro.
 *   - Collectives on one communicator are called by all its ranks in the same order. Point-to-point
 *     operations are never ordered behind collectives.
 *   - FLOE_ERR_ARGUMENT and FLOE_ERR_UNSUPPORTED are found before anything is sent and leave the communicator
 *     usable. Every other error of an operation leaves it aborted: shrink or destroy it.
 *   - Besides what a comment lists, a call returns FLOE_ERR_SYSTEM when memory runs out, FLOE_ERR_INTERNAL
 *     when floe has a defect.
 *   - Every operation has the communicator's deadline. No call waits for ever.
 *   - A handle is destroyed or freed by one thread while no other is in a call with it.
 *   - A handle used in a forked child answers FLOE_ERR_FORKED.
 */
#ifndef FLOE_FLOE_H
#define FLOE_FLOE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FLOE_API __attribute__((visibility("default")))
#else
#define FLOE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define FLOE_VERSION_MAJOR 0
#define FLOE_VERSION_MINOR 1
#define FLOE_VERSION_PATCH 0

typedef struct floe_context floe_context_t;
typedef struct floe_comm floe_comm_t;
typedef struct floe_request floe_request_t;

typedef enum floe_status {
  FLOE_OK = 0,
  FLOE_IN_PROGRESS = 1,     /* floe_test, floe_wait: not complete yet; not an error */
  FLOE_ERR_ARGUMENT = 2,    /* a wrong argument; nothing was sent */
  FLOE_ERR_UNSUPPORTED = 3, /* a pair of type and operation, or a feature, that does not exist */
  FLOE_ERR_ENVIRONMENT = 4, /* a missing or wrong environment variable */
  FLOE_ERR_TIMEOUT = 5,     /* the communicator's deadline passed; it is aborted */
  FLOE_ERR_PEER = 6,        /* a rank died or left */
  FLOE_ERR_MISMATCH = 7,    /* ranks disagree: on a collective's arguments, versions or settings */
  FLOE_ERR_ABORTED = 8,     /* floe_comm_abort, here or on another rank; floe_comm_destroy here */
  FLOE_ERR_TRUNCATED = 9,   /* a message is longer than the buffer posted for it */
  FLOE_ERR_FORKED = 10,     /* the handle belongs to the parent process */
  FLOE_ERR_SYSTEM = 11,     /* the operating system refused something: memory, descriptors, ... */
  FLOE_ERR_TRANSPORT = 12,  /* libfabric or the network failed */
  FLOE_ERR_STORE = 13,      /* the store failed, or a rank never arrived at it */
  FLOE_ERR_INTERNAL = 14    /* a defect of floe */
} floe_status_t;

typedef enum floe_type {
  FLOE_FLOAT32 = 0,
  FLOE_FLOAT64 = 1,
  FLOE_FLOAT16 = 2,
  FLOE_BFLOAT16 = 3,
  FLOE_INT8 = 4,
  FLOE_INT16 = 5,
  FLOE_INT32 = 6,
  FLOE_INT64 = 7,
  FLOE_UINT8 = 8,
  FLOE_UINT16 = 9,
  FLOE_UINT32 = 10,
  FLOE_UINT64 = 11,
  FLOE_BOOL = 12,              /* a byte: 0 is false, anything else is true */
  FLOE_COMPLEX64 = 13,         /* two float32: real, imaginary */
  FLOE_COMPLEX128 = 14,        /* two float64 */
  FLOE_FLOAT8_E4M3 = 15,       /* OCP E4M3, PyTorch's float8_e4m3fn: no infinity, largest 448 */
  FLOE_FLOAT8_E5M2 = 16,       /* OCP E5M2: the upper half of a float16 */
  FLOE_TYPE_LIMIT = 0x7fffffff /* no type; a floe_type_t holds any number to here */
} floe_type_t;

/* Of bool, whose results are 0 or 1: sum, max and bor are "or", product, min and band are "and". */
typedef enum floe_op {
  FLOE_SUM = 0,
  FLOE_AVG = 1, /* sum / size; floats and complex */
  FLOE_PRODUCT = 2,
  FLOE_MIN = 3,              /* not complex; NaN if any element is NaN, as in PyTorch */
  FLOE_MAX = 4,              /* not complex; NaN if any element is NaN, as in PyTorch */
  FLOE_BAND = 5,             /* bitwise and; integers and bool */
  FLOE_BOR = 6,              /* bitwise or; integers and bool */
  FLOE_BXOR = 7,             /* bitwise exclusive or; integers and bool */
  FLOE_OP_LIMIT = 0x7fffffff /* 256 to this: handles of floe_op_create_premul_sum */
} floe_op_t;

/* For `send` of a collective: the input is in `recv`. For `recv` of floe_scatter and floe_scatter_v, cast to
 * void *: the root's own block stays in `send`. */
#define FLOE_IN_PLACE ((const void *)(intptr_t)-1)
/* For `source` of floe_recv: whichever rank's matching message comes first. */
#define FLOE_ANY_SOURCE UINT32_MAX
/* For `timeout_ms` of floe_wait: until the communicator's deadline. */
#define FLOE_NO_TIMEOUT UINT64_MAX

/* How serious a log line is: FLOE_LOG chooses which are written. */
#define FLOE_LOG_ERROR 0
#define FLOE_LOG_WARN 1
#define FLOE_LOG_INFO 2
#define FLOE_LOG_DEBUG 3
#define FLOE_LOG_TRACE 4

/* Where the value of a setting comes from. */
#define FLOE_SETTING_DEFAULT 0
#define FLOE_SETTING_ENVIRONMENT 1
#define FLOE_SETTING_CALLER 2 /* floe_context_config_t */

/* ---- Version and errors ------------------------------------------------------------------- */

/* The library's version: major * 10000 + minor * 100 + patch. Never fails. */
FLOE_API uint32_t floe_version(void);

/* The name of a status, such as "FLOE_ERR_PEER"; a static string, "unknown status" if there is none. */
FLOE_API const char *floe_status_string(floe_status_t status);

/* What went wrong in this thread's last failed call, in words. Owned by floe, valid until the thread's
 * next call that does not return FLOE_OK; never NULL. */
FLOE_API const char *floe_last_error(void);

/* ---- Context ------------------------------------------------------------------------------ */

typedef struct floe_context_config {
  uint32_t struct_size;
  int32_t workers; /* threads that progress operations nobody waits for: 0 or 1; -1: FLOE_WORKERS */
} floe_context_config_t;

#define FLOE_CONTEXT_CONFIG_INIT \
  { (uint32_t)sizeof(floe_context_config_t), -1 }

/* Creates this rank's context. `config` may be NULL. Without a worker, asynchronous operations advance
 * only inside floe_test and floe_wait.
 * Threads: any. Blocking: no. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_ENVIRONMENT (a FLOE_*
 * setting has a wrong value), FLOE_ERR_SYSTEM. */
FLOE_API floe_status_t floe_context_create(const floe_context_config_t *config, floe_context_t **context);

/* Stops the context's threads and frees it with the memory of floe_mem_alloc. Its communicators must have
 * been destroyed; requests may be left, to be freed later. Blocking: no. Returns FLOE_OK, FLOE_ERR_ARGUMENT
 * (NULL, or communicators are left or are being created), FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_context_destroy(floe_context_t *context);

/* ---- Communicators ------------------------------------------------------------------------ */

/* A key-value store that all ranks of a communicator share, through which they find each other.
 * floe calls it only inside floe_comm_create, on the calling thread, and removes its keys. Keys are
 * printable ASCII of at most 200 bytes; values have at most 4096 bytes. Each function returns FLOE_OK
 * or the error that best describes the failure. */
typedef struct floe_store {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  void *user;        /* passed to each function */
  /* Stores a copy of `bytes` bytes under `key`. */
  floe_status_t (*set)(void *user, const char *key, const void *value, uint64_t bytes);
  /* Waits up to timeout_ms for `key`, copies at most `capacity` bytes of its value and sets *bytes to the
   * value's size. FLOE_ERR_TIMEOUT if the key did not appear. */
  floe_status_t (*get)(void *user, const char *key, void *value, uint64_t capacity, uint64_t *bytes,
                       uint64_t timeout_ms);
  /* Removes `key`; no error if there is none. NULL if the store can't. */
  floe_status_t (*remove)(void *user, const char *key);
} floe_store_t;

#define FLOE_STORE_INIT \
  { (uint32_t)sizeof(floe_store_t), 0, NULL, NULL, NULL, NULL }

typedef struct floe_comm_config {
  uint32_t struct_size;
  uint32_t rank;       /* 0 <= rank < size; floe_comm_create_from_env ignores rank and size */
  uint32_t size;       /* 1 to 65,536 */
  uint32_t reserved;   /* 0 */
  const char *name;    /* for messages and store keys: 1 to 63 printable ASCII, no space; NULL: "world" */
  uint64_t timeout_ms; /* deadline of creation and of each operation; 0: FLOE_TIMEOUT_MS's value */
} floe_comm_config_t;

#define FLOE_COMM_CONFIG_INIT \
  { (uint32_t)sizeof(floe_comm_config_t), 0, 1, 0, NULL, 0 }

/* Creates a communicator of `config->size` ranks, found through `store` (NULL is allowed for size 1).
 * Collective: all ranks call it, with the same size, name and timeout. Blocking: until all ranks are
 * connected, at most the timeout. The strings and the store are not kept.
 * Threads: any; creations on one context may overlap when their names or stores differ.
 * Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_STORE (names the ranks that did not arrive),
 * FLOE_ERR_MISMATCH, FLOE_ERR_PEER, FLOE_ERR_TIMEOUT, FLOE_ERR_ABORTED (another rank gave up),
 * FLOE_ERR_ENVIRONMENT (no such FLOE_PROVIDER or FLOE_IFNAME), FLOE_ERR_TRANSPORT, FLOE_ERR_SYSTEM,
 * FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_create(floe_context_t *context, const floe_comm_config_t *config,
                                        const floe_store_t *store, floe_comm_t **comm);

/* The same with rank, size and address from the environment of torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT), Intel MPI or MPICH (PMI_RANK, PMI_SIZE), Open MPI (OMPI_COMM_WORLD_RANK, _SIZE) or Slurm
 * (SLURM_PROCID, SLURM_NTASKS), and with a TCP store that rank 0 serves at MASTER_ADDR:MASTER_PORT while
 * the call lasts (one port higher under torchrun, whose own store has that port). MASTER_ADDR may be
 * missing when all ranks are on this host. `config` may be NULL.
 * Returns as floe_comm_create, or FLOE_ERR_ENVIRONMENT (names the variable that is missing or wrong). */
FLOE_API floe_status_t floe_comm_create_from_env(floe_context_t *context, const floe_comm_config_t *config,
                                                 floe_comm_t **comm);

/* Frees the communicator. Not collective. Operations under way end with FLOE_ERR_ABORTED; their requests stay
 * valid until freed, and other threads may be waiting for them. Peers that still wait for this rank get
 * FLOE_ERR_PEER: "rank 2 left". Blocking: no; at most 100 ms with operations under way, else at most 2 s if
 * ranks of other hosts have not received all. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_destroy(floe_comm_t *comm);

/* Ends every operation of the communicator, on all ranks, with FLOE_ERR_ABORTED; every later operation
 * gets the same. After it has returned floe touches no buffer of the caller's any more (but see Memory).
 * Threads: any, also while others wait. Blocking: no; at most 100 ms, or 2 s if it is a thread of this
 * process, while a peer writes to memory of floe_mem_alloc. Returns FLOE_OK, FLOE_ERR_ARGUMENT,
 * FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_abort(floe_comm_t *comm);

/* Sets the deadline of operations that start from now on; 0 is an argument error. Not collective.
 * Threads: any. Blocking: no. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_set_timeout(floe_comm_t *comm, uint64_t timeout_ms);

/* Sets what float32 sums of floe_all_reduce travel as between hosts, from the next call on: FLOE_FLOAT32, or
 * FLOE_BFLOAT16, which halves the bytes (see "Numbers"). Its first value is FLOE_WIRE_DTYPE's, or that of the
 * communicator it was split from. Not collective, but all ranks set the same before the same calls, which
 * else end with FLOE_ERR_MISMATCH. Threads: any. Blocking: no. Returns FLOE_OK, FLOE_ERR_ARGUMENT (another
 * type), FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_set_wire_type(floe_comm_t *comm, floe_type_t type);

/* For `color` of floe_comm_split: this rank gets no communicator. */
#define FLOE_UNDEFINED INT32_MIN

/* Splits `comm` into one communicator for each colour, of the ranks that gave this colour; their ranks in it
 * are in the order of `key`, any number, and of their ranks in `comm` where keys are equal.
 *   color     0 or more, or FLOE_UNDEFINED: *new_comm becomes NULL
 *   new_comm  the caller's, to destroy; it may outlive `comm`, and starts with comm's timeout
 * Collective on `comm`: all its ranks call it, in the same order as their other collectives, and start none
 * before it has returned. Blocking: at most comm's timeout. What fails one new communicator only, such as a
 * limit on descriptors, is an error on all its ranks and leaves `comm` usable. Threads: as collectives.
 * Returns FLOE_OK, FLOE_ERR_ARGUMENT (nothing was sent), FLOE_ERR_MISMATCH, FLOE_ERR_PEER, FLOE_ERR_TIMEOUT,
 * FLOE_ERR_ABORTED, FLOE_ERR_TRANSPORT, FLOE_ERR_SYSTEM, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_split(floe_comm_t *comm, int32_t color, int32_t key, floe_comm_t **new_comm);

/* Makes a communicator of the ranks of `comm` that live, in order, after a death or an abort; `comm` is
 * aborted if it has not failed, and remains to be destroyed. All that get one get the same members. On
 * several hosts it takes a living rank on more than half of them, or on half with rank 0's, else
 * FLOE_ERR_PEER (the others may be cut off only), and is done once. Collective among the survivors: each
 * process that lives calls it or has destroyed its handle of `comm`; a rank that does neither within comm's
 * timeout is named in FLOE_ERR_TIMEOUT, and the call may be repeated. Threads: one per communicator, of at
 * most 1024 ranks. Blocking: at most comm's timeout and 2 s. Returns FLOE_OK, FLOE_ERR_ARGUMENT,
 * FLOE_ERR_UNSUPPORTED, FLOE_ERR_TIMEOUT, FLOE_ERR_PEER, FLOE_ERR_MISMATCH, FLOE_ERR_TRANSPORT,
 * FLOE_ERR_SYSTEM, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_shrink(floe_comm_t *comm, floe_comm_t **new_comm);

typedef struct floe_comm_info {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t size;
  uint32_t local_rank; /* position among the ranks of this host, by rank */
  uint32_t local_size; /* ranks on this host */
  uint32_t direct;     /* 1: all ranks are on this host and use shared memory */
  uint64_t timeout_ms;
} floe_comm_info_t;

#define FLOE_COMM_INFO_INIT \
  { (uint32_t)sizeof(floe_comm_info_t), 0, 0, 0, 0, 0, 0 }

/* Describes the communicator. Fills at most info->struct_size bytes. Threads: any. Blocking: no.
 * Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_info(const floe_comm_t *comm, floe_comm_info_t *info);

/* ---- Memory -------------------------------------------------------------------------------
 * Any buffer may be passed to any operation. floe_all_reduce copies nothing if all ranks, on one host, pass
 * memory of floe_mem_alloc, from 64 KiB on in place, and from 1 MiB on in two buffers: ranks then write to
 * each other's. An error or abort ends that first. A process that is stopped in the middle of it (SIGSTOP) is
 * cut off after 100 ms, named in a warning: the pages that it was at become private, and later calls copy
 * them. (A thread of this one can't be: up to 256 KiB may still change.) At most 65,536 ranges a context.
 * Threads: any. Blocking: no. */

/* Allocates `bytes` (1 or more) of zeroed, page-aligned memory, absent from core dumps and forked children: a
 * child that touches it gets SIGSEGV. The first call reserves addresses for as much as the host has. floe
 * owns the memory until floe_mem_free or floe_context_destroy. Returns FLOE_OK, FLOE_ERR_ARGUMENT,
 * FLOE_ERR_SYSTEM (limits on memory, addresses or descriptors; no piece of this size is free),
 * FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_mem_alloc(floe_context_t *context, uint64_t bytes, void **memory);

/* Frees memory of floe_mem_alloc, by its start; NULL is allowed. No operation may use it any more: floe does
 * not check that. Returns FLOE_OK, FLOE_ERR_ARGUMENT (not allocated by this context, or freed already),
 * FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_mem_free(floe_context_t *context, void *memory);

/* Tells floe that `bytes` (1 or more) of the caller's memory will be used often. Nothing about the memory
 * changes (a forked child has it as before); it stays the caller's, who unregisters it before it is unmapped.
 * Returns FLOE_OK, FLOE_ERR_ARGUMENT (not all of it is mapped, or it overlaps memory that is registered or
 * allocated already), FLOE_ERR_SYSTEM (too many ranges), FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_mem_register(floe_context_t *context, void *memory, uint64_t bytes);

/* Ends a registration, by its start; as floe_mem_free. */
FLOE_API floe_status_t floe_mem_unregister(floe_context_t *context, void *memory);

/* ---- Queries ------------------------------------------------------------------------------
 * Each fills a struct of the caller's, at most struct_size bytes of it. Threads: any. Blocking: no. */

typedef struct floe_context_info {
  uint32_t struct_size;
  uint32_t workers;       /* threads that progress operations nobody waits for */
  uint32_t communicators; /* that exist */
  uint32_t settings;      /* how many floe_setting knows */
  uint64_t allocations;   /* of floe_mem_alloc that are not freed */
  uint64_t allocated_bytes;
  uint64_t registrations; /* of floe_mem_register */
  uint64_t registered_bytes;
} floe_context_info_t;

#define FLOE_CONTEXT_INFO_INIT \
  { (uint32_t)sizeof(floe_context_info_t), 0, 0, 0, 0, 0, 0, 0 }

/* Describes the context. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_context_info(const floe_context_t *context, floe_context_info_t *info);

typedef struct floe_topology {
  uint32_t struct_size;
  uint32_t host_cpus; /* hardware threads of the host; all below is of the part this process may use */
  uint32_t packages;
  uint32_t numa_nodes;
  uint32_t cores;
  uint32_t cpus; /* hardware threads */
  uint32_t l3_caches;
  uint32_t l3_cpus;  /* most CPUs that share one L3 cache; 0: unknown */
  uint64_t l3_bytes; /* of one L3 cache; 0: unknown */
  uint64_t l2_bytes; /* of one L2 cache; 0: unknown */
  uint64_t memory_bytes;
} floe_topology_t;

#define FLOE_TOPOLOGY_INIT \
  { (uint32_t)sizeof(floe_topology_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Describes this machine, as hwloc sees it at the process's first call, which takes some milliseconds.
 * Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_SYSTEM. */
FLOE_API floe_status_t floe_topology(floe_topology_t *info);

typedef struct floe_setting {
  uint32_t struct_size;
  uint32_t source;    /* FLOE_SETTING_... */
  const char *name;   /* "FLOE_TIMEOUT_MS" */
  const char *value;  /* in this context, as text; "" is "choose" */
  const char *values; /* what is allowed */
  const char *help;
} floe_setting_t;

#define FLOE_SETTING_INIT \
  { (uint32_t)sizeof(floe_setting_t), 0, NULL, NULL, NULL, NULL }

/* Describes setting number `index`, below floe_context_info_t.settings; the numbers may differ between
 * versions. The strings live as long as the context. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_setting(const floe_context_t *context, uint32_t index, floe_setting_t *info);

typedef struct floe_comm_statistics {
  uint32_t struct_size;
  uint32_t status;           /* floe_status_t: FLOE_OK while it works, or why it has failed */
  uint64_t collectives;      /* started, floe's own of the creation included */
  uint64_t collective_bytes; /* count * size of the type: this rank's part, not what travelled */
  uint64_t sends;            /* started */
  uint64_t sent_bytes;
  uint64_t receives;  /* started */
  uint64_t refused;   /* not started, as it had failed already; not counted above */
  uint64_t completed; /* collectives, sends and receives that ended well ... */
  uint64_t failed;    /* ... and with an error; the others are under way */
} floe_comm_statistics_t;

#define FLOE_COMM_STATISTICS_INIT \
  { (uint32_t)sizeof(floe_comm_statistics_t), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* What this rank has done on the communicator. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_comm_statistics(const floe_comm_t *comm, floe_comm_statistics_t *info);

/* From now on log lines of the whole process go to fn(user, level, message), NULL: to stderr again. When it
 * has returned, the previous fn is not running on another thread and will not be called. `level` is
 * FLOE_LOG_...; one thread at a time calls fn, with `message` valid during the call, perhaps in the middle of
 * any call of floe: it must not block and must not call floe. A forked child calls it, too. Threads: any.
 * Returns FLOE_OK. */
FLOE_API floe_status_t floe_set_log_callback(void (*fn)(void *user, uint32_t level, const char *message),
                                             void *user);

/* ---- Collectives --------------------------------------------------------------------------
 * Common to all:
 *   send   read until the operation completes; may not overlap recv but in the in-place form given
 *   recv   written until the operation completes
 *   count  elements; the same on all ranks; 0 is allowed, buffers may then be NULL
 *   req    non-NULL: the call returns at once, and *req, set if it returns FLOE_OK, is waited for or tested
 *          and then freed; NULL: returns when done, at most the communicator's timeout later
 * Threads: any; calls on one communicator are serialised, in an order the callers must agree on.
 * Return FLOE_OK, FLOE_ERR_ARGUMENT or FLOE_ERR_UNSUPPORTED (nothing was sent), FLOE_ERR_MISMATCH,
 * FLOE_ERR_PEER, FLOE_ERR_TIMEOUT, FLOE_ERR_ABORTED, FLOE_ERR_TRANSPORT, FLOE_ERR_FORKED; an error after
 * the start of an asynchronous operation is what floe_wait or floe_test returns. Ranks that call different
 * collectives, or with different arguments, all get FLOE_ERR_MISMATCH, from this call or their next one. Two
 * calls of the same kind, type and sizes that ranks make in different order can't be told apart.
 * Numbers: 16- and 8-bit floats are combined in a float32 accumulator over all ranks in rank order and
 * rounded once, to nearest even; wider ones in an order that may depend on which ranks share a host. All
 * ranks get the same bits, in every run with the same ranks and hosts. Beyond the largest number
 * float8 rounds as PyTorch converts: E4M3 to the largest, 448, and E5M2 to infinity.
 *
 * FLOE_WIRE_DTYPE=bf16 or floe_comm_set_wire_type: sum, avg and premul-sum of float32 in floe_all_reduce, of
 * more than 16 KiB / (size - 1), travel between hosts as bfloat16. Sums are still float32: an element is
 * rounded to nearest even when it leaves its host, and the sum once more. All ranks get the same bits. With S
 * the exact result and A the sum of the magnitudes of what is added, the error is at most 2^-8 |S| + 1.01 *
 * 2^-8 A, less than A / 127, up to 64 ranks (for avg, after division); results from 2^128 - 2^119 on are
 * infinite. */

/* Combines `count` elements of every rank's `send` into every rank's `recv`. In place: send is recv or
 * FLOE_IN_PLACE. */
FLOE_API floe_status_t floe_all_reduce(floe_comm_t *comm, const void *send, void *recv, uint64_t count,
                                       floe_type_t type, floe_op_t op, floe_request_t **req);

/* Combines `count` elements of every rank's `send` into `recv` of rank `root`. Other ranks' recv is not
 * used and may be NULL. In place, on the root: send is recv or FLOE_IN_PLACE. */
FLOE_API floe_status_t floe_reduce(floe_comm_t *comm, const void *send, void *recv, uint64_t count,
                                   floe_type_t type, floe_op_t op, uint32_t root, floe_request_t **req);

/* Copies `count` elements of `buffer` on rank `root` to `buffer` on all others. */
FLOE_API floe_status_t floe_broadcast(floe_comm_t *comm, void *buffer, uint64_t count, floe_type_t type,
                                      uint32_t root, floe_request_t **req);

/* Gathers `count` elements of each rank's `send` into `recv` (size * count elements, in rank order) on
 * all ranks. In place: send is recv + rank * count, or FLOE_IN_PLACE. */
FLOE_API floe_status_t floe_all_gather(floe_comm_t *comm, const void *send, void *recv, uint64_t count,
                                       floe_type_t type, floe_request_t **req);

/* Combines `send` (size * count elements) of all ranks and leaves the rank-th `count` elements of the
 * result in `recv`. In place: recv is send + rank * count (the rest of send is unchanged). */
FLOE_API floe_status_t floe_reduce_scatter(floe_comm_t *comm, const void *send, void *recv, uint64_t count,
                                           floe_type_t type, floe_op_t op, floe_request_t **req);

/* Completes when all ranks have called it. */
FLOE_API floe_status_t floe_barrier(floe_comm_t *comm, floe_request_t **req);

/* Makes an operation for this communicator's reductions: the sum over the ranks of scalar * element. The
 * product is taken in the accumulator's type (see "Numbers") and not rounded to `type` before it is added.
 *   scalar  one element of `type`, read during the call; it may differ from rank to rank
 *   type    a floating-point type, complex excepted: the one of the collectives that use the operation
 *   op      set to a handle for `op` of all_reduce, reduce and reduce_scatter on `comm`, with `type`. All
 *           ranks pass such a handle, each its own; floe_local_reduce takes none.
 * The handle lives until floe_op_destroy or the communicator's end.
 * Not collective. Threads: any. Blocking: no.
 * Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_UNSUPPORTED (not floating-point), FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_op_create_premul_sum(floe_comm_t *comm, const void *scalar, floe_type_t type,
                                                 floe_op_t *op);

/* Frees a handle. Operations under way that were called with it go on unharmed.
 * Not collective. Threads: any. Blocking: no. Returns FLOE_OK, FLOE_ERR_ARGUMENT (no such handle of this
 * communicator), FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_op_destroy(floe_comm_t *comm, floe_op_t op);

/* ---- Collectives of blocks ----------------------------------------------------------------
 * As above, with a block for each rank. In a v-form the blocks have sizes of their own:
 *   counts   elements of each rank's block; `size` of them, some or all may be 0
 *   offsets  where each block starts, in elements from the start of the buffer; `size` of them, in any order
 *            and with gaps, which are neither read nor written; those of empty blocks mean nothing.
 *            NULL: the blocks lie back to back. Ranks' offsets need not be the same.
 * Arrays are read during the call only. A buffer may be NULL if all of its blocks are empty. Blocks that are
 * written may not overlap each other or what is read; blocks that are only read may overlap each other.
 * Ranks that disagree about the size of a block: FLOE_ERR_MISMATCH. */

/* Gathers counts[r] elements of each rank r's `send` into block r of `recv` on all ranks. All ranks give
 * `counts`, with the same values, else FLOE_ERR_MISMATCH. In place: send is block `rank` of recv, or
 * FLOE_IN_PLACE. */
FLOE_API floe_status_t floe_all_gather_v(floe_comm_t *comm, const void *send, void *recv,
                                         const uint64_t *counts, const uint64_t *offsets, floe_type_t type,
                                         floe_request_t **req);

/* Combines the blocks of `send` of all ranks and leaves block `rank` of the result, counts[rank] elements, in
 * `recv`. All ranks give `counts`, with the same values, else FLOE_ERR_MISMATCH. In place: recv is block
 * `rank` of send (the rest of send is unchanged). */
FLOE_API floe_status_t floe_reduce_scatter_v(floe_comm_t *comm, const void *send, void *recv,
                                             const uint64_t *counts, const uint64_t *offsets,
                                             floe_type_t type, floe_op_t op, floe_request_t **req);

/* Sends block r of `send` to each rank r, and receives its block for this rank as block r of `recv`. Both
 * buffers have size * count elements. In place: send is recv or FLOE_IN_PLACE; floe then takes memory for up
 * to 8 blocks until the operation completes. */
FLOE_API floe_status_t floe_all_to_all(floe_comm_t *comm, const void *send, void *recv, uint64_t count,
                                       floe_type_t type, floe_request_t **req);

/* The same with blocks of any size. All ranks give all arrays: send_counts[r] of this rank is
 * recv_counts[rank] of rank r, else FLOE_ERR_MISMATCH (FLOE_ERR_ARGUMENT if r is this rank). In place: send
 * is FLOE_IN_PLACE, send_counts and send_offsets are not used, two ranks' blocks for each other have the same
 * size, and floe takes memory for up to 8 blocks of the largest size. */
FLOE_API floe_status_t floe_all_to_all_v(floe_comm_t *comm, const void *send, const uint64_t *send_counts,
                                         const uint64_t *send_offsets, void *recv,
                                         const uint64_t *recv_counts, const uint64_t *recv_offsets,
                                         floe_type_t type, floe_request_t **req);

/* Gathers `count` elements of each rank's `send` into `recv` (size * count elements, in rank order) of rank
 * `root`. Other ranks' recv is not used. In place, on the root: send is recv + root * count, or
 * FLOE_IN_PLACE. */
FLOE_API floe_status_t floe_gather(floe_comm_t *comm, const void *send, void *recv, uint64_t count,
                                   floe_type_t type, uint32_t root, floe_request_t **req);

/* The same with blocks of any size. Every rank r gives send_count; the root gives counts and offsets, which
 * the others may leave NULL. send_count of rank r is the root's counts[r], else FLOE_ERR_MISMATCH
 * (FLOE_ERR_ARGUMENT if r is the root). In place, on the root: send is block `root` of recv, or
 * FLOE_IN_PLACE, with which send_count is not used. */
FLOE_API floe_status_t floe_gather_v(floe_comm_t *comm, const void *send, uint64_t send_count, void *recv,
                                     const uint64_t *counts, const uint64_t *offsets, floe_type_t type,
                                     uint32_t root, floe_request_t **req);

/* Sends the r-th `count` elements of `send` (size * count elements) of rank `root` to each rank r's `recv`.
 * Other ranks' send is not used. In place, on the root: recv is send + root * count, or FLOE_IN_PLACE. */
FLOE_API floe_status_t floe_scatter(floe_comm_t *comm, const void *send, void *recv, uint64_t count,
                                    floe_type_t type, uint32_t root, floe_request_t **req);

/* The same with blocks of any size. Every rank r gives recv_count; the root gives counts and offsets, which
 * the others may leave NULL. recv_count of rank r is the root's counts[r], else FLOE_ERR_MISMATCH
 * (FLOE_ERR_ARGUMENT if r is the root). In place, on the root: recv is block `root` of send, or
 * FLOE_IN_PLACE, with which recv_count is not used. */
FLOE_API floe_status_t floe_scatter_v(floe_comm_t *comm, const void *send, const uint64_t *counts,
                                      const uint64_t *offsets, void *recv, uint64_t recv_count,
                                      floe_type_t type, uint32_t root, floe_request_t **req);

/* ---- Point to point -----------------------------------------------------------------------
 * A message from one rank to another carries a 64-bit tag, any number. Messages of one sender, receiver and
 * tag are received in the order sent, and their sends and receives complete in that order. Types give sizes
 * only: a message is bytes. `req`, threads and statuses as for collectives. */

/* Sends `count` elements. Completes when `buffer` may be reused, which may be before the message is
 * received. `dest` may not be this rank. */
FLOE_API floe_status_t floe_send(floe_comm_t *comm, const void *buffer, uint64_t count, floe_type_t type,
                                 uint32_t dest, uint64_t tag, floe_request_t **req);

/* Receives a message with `tag` from rank `source`, not this one, or from any (FLOE_ANY_SOURCE), of at most
 * `count` elements; floe_request_info says who sent how much. A longer message is FLOE_ERR_TRUNCATED, on all
 * ranks. */
FLOE_API floe_status_t floe_recv(floe_comm_t *comm, void *buffer, uint64_t count, floe_type_t type,
                                 uint32_t source, uint64_t tag, floe_request_t **req);

/* The same from any of `source_count` ranks (1 to size) listed in `sources`, which is not kept. */
FLOE_API floe_status_t floe_recv_any(floe_comm_t *comm, void *buffer, uint64_t count, floe_type_t type,
                                     const uint32_t *sources, uint64_t source_count, uint64_t tag,
                                     floe_request_t **req);

/* Sends `send_count` elements to `dest` and receives at most `recv_count` from `source`, or FLOE_ANY_SOURCE:
 * who exchanges data need not agree on who sends first. As floe_send with a request, floe_recv, floe_wait,
 * but faster where messages are short, or longer than 1 MiB. Blocks; returns when both have ended, with the
 * send's status if it failed, else the receive's. `send` and `recv` must not overlap. */
FLOE_API floe_status_t floe_sendrecv(floe_comm_t *comm, const void *send, uint64_t send_count, uint32_t dest,
                                     uint64_t send_tag, void *recv, uint64_t recv_count, uint32_t source,
                                     uint64_t recv_tag, floe_type_t type);

/* ---- Requests ----------------------------------------------------------------------------- */

/* Progresses the context, and returns the operation's status if it is complete, else FLOE_IN_PROGRESS.
 * Threads: any, several may test or wait for one request. Blocking: no. Also FLOE_ERR_ARGUMENT (NULL),
 * FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_test(floe_request_t *req);

/* Waits up to timeout_ms while progressing the whole context on this thread. Returns the operation's
 * status, or FLOE_IN_PROGRESS when the time is up: the operation then goes on and the request stays valid.
 * FLOE_NO_TIMEOUT waits for the operation's own deadline. Threads and other statuses as for floe_test. */
FLOE_API floe_status_t floe_wait(floe_request_t *req, uint64_t timeout_ms);

/* Calls `fn(user, status, message)` once when the operation has completed: on the thread that completes it,
 * or on this one if it has already. `message` is floe_last_error()'s text and valid only during the call.
 * fn must not block and must not call floe, except floe_request_free. At most one per request, else
 * FLOE_ERR_ARGUMENT. Threads: any. Blocking: no. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_request_on_complete(
    floe_request_t *req, void (*fn)(void *user, floe_status_t status, const char *message), void *user);

typedef struct floe_request_info {
  uint32_t struct_size;
  uint32_t source; /* of a completed receive: the sender's rank */
  uint64_t bytes;  /* of a completed receive: the message's size */
} floe_request_info_t;

#define FLOE_REQUEST_INFO_INIT \
  { (uint32_t)sizeof(floe_request_info_t), 0, 0 }

/* Describes a completed request. Threads: any. Blocking: no. Returns FLOE_OK, FLOE_ERR_ARGUMENT (also if it
 * is not complete), FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_request_info(const floe_request_t *req, floe_request_info_t *info);

/* Frees the handle. The operation, if it is not complete, goes on: its buffers stay in use. NULL is
 * allowed. Returns FLOE_OK, FLOE_ERR_FORKED. */
FLOE_API floe_status_t floe_request_free(floe_request_t *req);

/* ---- Local reduction ---------------------------------------------------------------------- */

/* dst[i] = sources[0][i] op sources[1][i] op ... for `count` elements: the kernel that the collectives use
 * (see "Numbers" above), on this thread. FLOE_AVG divides by source_count (1 or more); no handle of
 * floe_op_create_premul_sum is taken. dst may be one of the sources, and may not overlap them otherwise.
 * Threads: any. Returns FLOE_OK, FLOE_ERR_ARGUMENT, FLOE_ERR_UNSUPPORTED. */
FLOE_API floe_status_t floe_local_reduce(void *dst, const void *const *sources, uint32_t source_count,
                                         uint64_t count, floe_type_t type, floe_op_t op);

#ifdef __cplusplus
}
#endif

#endif /* FLOE_FLOE_H */
