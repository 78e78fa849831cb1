/* A program of an earlier release: compiled with its header, abi/baseline/VERSION, and run with today's
 * library. It calls every function, and its structs, which may be smaller than today's, stand before bytes
 * that the library must neither write nor take for fields.
 * usage, as each of 2 ranks or more: old_client FOLDER_FOR_THE_STORE */
#define _POSIX_C_SOURCE 200809L
#include <floe/floe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                 \
  do {                                                                                                   \
    if (!(condition)) {                                                                                  \
      fprintf(stderr, "%s:%d: not true: %s\n  %s\n", __FILE__, __LINE__, #condition, floe_last_error()); \
      exit(1);                                                                                           \
    }                                                                                                    \
  } while (0)
#define OK(call) CHECK((call) == FLOE_OK)

enum { GUARD = 64, GARBAGE = 0xa5 };

typedef struct {
  floe_context_config_t config;
  unsigned char after[GUARD];
} guarded_context_config_t;
typedef struct {
  floe_comm_config_t config;
  unsigned char after[GUARD];
} guarded_comm_config_t;
typedef struct {
  floe_store_t store;
  unsigned char after[GUARD];
} guarded_store_t;
typedef struct {
  floe_comm_info_t info;
  unsigned char after[GUARD];
} guarded_comm_info_t;
typedef struct {
  floe_request_info_t info;
  unsigned char after[GUARD];
} guarded_request_info_t;

static int all_are(const unsigned char *bytes, int expected) {
  int i;
  for (i = 0; i < GUARD; ++i) {
    if (bytes[i] != expected) {
      return 0;
    }
  }
  return 1;
}

/* ---- A store: one file per key in a folder that all ranks see ---- */

typedef struct {
  const char *folder;
  uint32_t rank;
} folder_t;

static void path_of(char path[512], const folder_t *folder, const char *key) {
  char *c;
  const int prefix = snprintf(path, 512, "%s/", folder->folder);
  snprintf(path + prefix, 512 - (size_t)prefix, "%s", key);
  for (c = path + prefix; *c != '\0'; ++c) {
    if (*c == '/') {
      *c = '_';
    }
  }
}

static floe_status_t store_set(void *user, const char *key, const void *value, uint64_t bytes) {
  const folder_t *const folder = user;
  char path[512], draft[512];
  FILE *file;
  path_of(path, folder, key);
  snprintf(draft, sizeof draft, "%s/draft%u", folder->folder, (unsigned)folder->rank);
  file = fopen(draft, "wb");
  if (file == NULL || fwrite(value, 1, bytes, file) != bytes || fclose(file) != 0) {
    return FLOE_ERR_STORE;
  }
  return rename(draft, path) == 0 ? FLOE_OK : FLOE_ERR_STORE; /* so that a reader sees all or nothing */
}

static floe_status_t store_get(void *user, const char *key, void *value, uint64_t capacity, uint64_t *bytes,
                               uint64_t timeout_ms) {
  const struct timespec millisecond = {0, 1000000};
  char path[512];
  FILE *file;
  path_of(path, user, key);
  while ((file = fopen(path, "rb")) == NULL) {
    if (timeout_ms-- == 0) {
      return FLOE_ERR_TIMEOUT;
    }
    nanosleep(&millisecond, NULL);
  }
  *bytes = fread(value, 1, capacity, file);
  fclose(file);
  return FLOE_OK;
}

static floe_status_t store_remove(void *user, const char *key) {
  char path[512];
  path_of(path, user, key);
  unlink(path);
  return FLOE_OK;
}

/* ---- What the program does ---- */

static floe_context_t *create_context(void) {
  const floe_context_config_t init = FLOE_CONTEXT_CONFIG_INIT;
  guarded_context_config_t guarded;
  floe_context_t *context = NULL;
  memset(&guarded, GARBAGE, sizeof guarded);
  guarded.config = init;
  guarded.config.workers = 2;
  CHECK(floe_context_create(&guarded.config, &context) == FLOE_ERR_ARGUMENT);
  guarded.config.workers = 0; /* so that this thread completes requests, and their callbacks have returned */
  OK(floe_context_create(&guarded.config, &context));
  OK(floe_context_destroy(context));

  guarded.config.struct_size = sizeof init - 1;
  CHECK(floe_context_create(&guarded.config, &context) == FLOE_ERR_ARGUMENT);
  guarded.config.struct_size = sizeof guarded; /* a later program, which sets nothing new */
  memset(guarded.after, 0, GUARD);
  OK(floe_context_create(&guarded.config, &context));
  return context;
}

static floe_comm_t *create_from_environment(floe_context_t *context) {
  const floe_comm_config_t init = FLOE_COMM_CONFIG_INIT;
  guarded_comm_config_t guarded;
  floe_comm_t *comm = NULL;
  memset(&guarded, GARBAGE, sizeof guarded);
  guarded.config = init;
  guarded.config.name = "old";
  guarded.config.timeout_ms = 20000;
  guarded.config.struct_size = sizeof init - 1;
  CHECK(floe_comm_create_from_env(context, &guarded.config, &comm) == FLOE_ERR_ARGUMENT);
  guarded.config.struct_size = sizeof init;
  OK(floe_comm_create_from_env(context, &guarded.config, &comm));
  return comm;
}

static floe_comm_t *create_from_store(floe_context_t *context, const floe_comm_info_t *world,
                                      const char *folder) {
  const floe_store_t store_init = FLOE_STORE_INIT;
  const floe_comm_config_t config_init = FLOE_COMM_CONFIG_INIT;
  guarded_store_t store;
  guarded_comm_config_t config;
  folder_t user;
  floe_comm_t *comm = NULL;
  user.folder = folder;
  user.rank = world->rank;
  memset(&store, GARBAGE, sizeof store);
  store.store = store_init;
  store.store.user = &user;
  store.store.set = store_set;
  store.store.get = store_get;
  store.store.remove = store_remove;
  memset(&config, 0, sizeof config);
  config.config = config_init;
  config.config.struct_size = sizeof config; /* a later program, which sets nothing new */
  config.config.rank = world->rank;
  config.config.size = world->size;
  config.config.name = "stored";
  config.config.timeout_ms = 20000;
  store.store.struct_size = sizeof store_init - 1;
  CHECK(floe_comm_create(context, &config.config, &store.store, &comm) == FLOE_ERR_ARGUMENT);
  store.store.struct_size = sizeof store_init;
  OK(floe_comm_create(context, &config.config, &store.store, &comm));
  return comm;
}

static floe_comm_info_t describe(const floe_comm_t *comm) {
  const floe_comm_info_t init = FLOE_COMM_INFO_INIT;
  guarded_comm_info_t guarded;
  memset(&guarded, GARBAGE, sizeof guarded);
  guarded.info = init;
  OK(floe_comm_info(comm, &guarded.info));
  CHECK(all_are(guarded.after, GARBAGE));
  CHECK(guarded.info.struct_size == sizeof init && guarded.info.rank < guarded.info.size);
  CHECK(guarded.info.size >= 2 && guarded.info.local_size == guarded.info.size);
  CHECK(guarded.info.local_rank == guarded.info.rank && guarded.info.timeout_ms == 20000);

  guarded.info.struct_size = sizeof init - 1;
  CHECK(floe_comm_info(comm, &guarded.info) == FLOE_ERR_ARGUMENT);
  guarded.info.struct_size = sizeof init;
  return guarded.info;
}

static void run_collectives(floe_comm_t *comm, const floe_comm_info_t *world) {
  const uint32_t size = world->size, sum = size * (size - 1) / 2;
  uint32_t one = world->rank, *all = malloc(size * sizeof *all), i;
  CHECK(all != NULL);
  OK(floe_all_reduce(comm, FLOE_IN_PLACE, &one, 1, FLOE_UINT32, FLOE_SUM, NULL));
  CHECK(one == sum);
  one = world->rank;
  OK(floe_reduce(comm, &one, all, 1, FLOE_UINT32, FLOE_MAX, 0, NULL));
  CHECK(world->rank != 0 || all[0] == size - 1);
  OK(floe_broadcast(comm, &one, 1, FLOE_UINT32, size - 1, NULL));
  CHECK(one == size - 1);
  one = world->rank;
  OK(floe_all_gather(comm, &one, all, 1, FLOE_UINT32, NULL));
  for (i = 0; i < size; ++i) {
    CHECK(all[i] == i);
  }
  OK(floe_reduce_scatter(comm, all, &one, 1, FLOE_UINT32, FLOE_SUM, NULL));
  CHECK(one == size * world->rank);
  OK(floe_barrier(comm, NULL));
  free(all);
}

static void on_complete(void *user, floe_status_t status, const char *message) {
  (void)message;
  *(floe_status_t *)user = status;
}

/* Each rank sends its number to the next one, in a ring. */
static void run_point_to_point(floe_comm_t *comm, const floe_comm_info_t *world) {
  const floe_request_info_t init = FLOE_REQUEST_INFO_INIT;
  const uint32_t next = (world->rank + 1) % world->size;
  const uint32_t previous = (world->rank + world->size - 1) % world->size;
  const uint64_t sent[2] = {world->rank, 7};
  uint64_t received[4] = {0, 0, 0, 0};
  guarded_request_info_t guarded;
  floe_request_t *receive = NULL, *receive_any = NULL, *send = NULL;
  floe_status_t completed = FLOE_IN_PROGRESS, tested;
  OK(floe_recv(comm, received, 2, FLOE_UINT64, previous, 11, &receive));
  OK(floe_request_on_complete(receive, on_complete, &completed));
  OK(floe_recv_any(comm, received + 2, 2, FLOE_UINT64, &previous, 1, 12, &receive_any));
  OK(floe_send(comm, sent, 2, FLOE_UINT64, next, 11, &send));
  OK(floe_send(comm, sent, 1, FLOE_UINT64, next, 12, NULL));
  OK(floe_wait(send, FLOE_NO_TIMEOUT));
  OK(floe_wait(receive, FLOE_NO_TIMEOUT));
  while ((tested = floe_test(receive_any)) == FLOE_IN_PROGRESS) {
  }
  OK(tested);
  CHECK(completed == FLOE_OK);
  CHECK(received[0] == previous && received[1] == 7 && received[2] == previous && received[3] == 0);

  memset(&guarded, GARBAGE, sizeof guarded);
  guarded.info = init;
  OK(floe_request_info(receive_any, &guarded.info));
  CHECK(guarded.info.source == previous && guarded.info.bytes == 8 && all_are(guarded.after, GARBAGE));
  guarded.info.struct_size = sizeof init - 1;
  CHECK(floe_request_info(receive_any, &guarded.info) == FLOE_ERR_ARGUMENT);
  OK(floe_request_free(send));
  OK(floe_request_free(receive));
  OK(floe_request_free(receive_any));
}

static void reduce_locally(void) {
  const double a[2] = {1, 2}, b[2] = {10, 20};
  const void *sources[2];
  double sum[2];
  sources[0] = a;
  sources[1] = b;
  OK(floe_local_reduce(sum, sources, 2, 2, FLOE_FLOAT64, FLOE_SUM));
  CHECK(sum[0] == 11 && sum[1] == 22);
}

int main(int argc, char **argv) {
  floe_context_t *context;
  floe_comm_t *world, *stored;
  floe_comm_info_t info;
  CHECK(argc == 2);
  CHECK(floe_version() >= FLOE_VERSION_MAJOR * 10000 + FLOE_VERSION_MINOR * 100 + FLOE_VERSION_PATCH);
  CHECK(strcmp(floe_status_string(FLOE_ERR_INTERNAL), "FLOE_ERR_INTERNAL") == 0);
  context = create_context();
  world = create_from_environment(context);
  info = describe(world);
  run_collectives(world, &info);
  run_point_to_point(world, &info);
  reduce_locally();

  stored = create_from_store(context, &info, argv[1]);
  OK(floe_comm_set_timeout(stored, 10000));
  run_collectives(stored, &info);
  OK(floe_comm_abort(stored));
  CHECK(floe_barrier(stored, NULL) == FLOE_ERR_ABORTED);
  OK(floe_comm_destroy(stored));
  OK(floe_barrier(world, NULL));
  OK(floe_comm_destroy(world));
  OK(floe_context_destroy(context));
  return 0;
}
